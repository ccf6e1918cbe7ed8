package request

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/openberth/berth/api/edge"
	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/policies"
)

// Checks returns the checks of every request. They have the same order as in the original, so that a request with
// several faults gets the same status.
func Checks() []func(*Call) error {
	return []func(*Call) error{(*Call).CheckRequestLine, (*Call).CheckDatabase, (*Call).Authenticate, (*Call).negotiate,
		(*Call).checkContentType, (*Call).CheckRoute, (*Call).CheckMethod, (*Call).CheckMediaFirst, (*Call).checkSince,
		(*Call).CheckMedia, (*Call).checkPolicy}
}

// negotiate determines the microversion. It returns status 400 for one that is not valid, and 406 for one that is not
// supported.
func (c *Call) negotiate() error {
	version, err := api.RequestVersion(c.R.Header)
	if fault.CodeOf(err) == api.CodeVersion {
		return &edge.StatusError{Status: http.StatusNotAcceptable, Err: err}
	}
	if err != nil {
		return edge.StatusErrorf(http.StatusBadRequest, "%s", fault.TextOf(err))
	}
	c.Microversion, c.Version = version, version
	h := c.W.Header()
	h.Set(api.VersionHeader, version.Header())
	h.Set("Vary", "openstack-api-version")
	return nil
}

// checkContentType refuses a body without a type.
func (c *Call) checkContentType() error {
	if c.R.ContentLength > 0 && c.R.Header.Get("Content-Type") == "" {
		return edge.StatusErrorf(http.StatusBadRequest, "content-type header required when content-length > 0")
	}
	return nil
}

func (c *Call) checkSince() error { return c.CheckSince(int(c.Microversion)) }

func (c *Call) checkPolicy() error { return c.Authorize(c.Spec.Rule, c.Target(c.Spec.Rule)) }

// Target returns the attributes of a request that a rule may refer to.
func (c *Call) Target(rule string) map[string]any {
	if rule != policies.Usages {
		return map[string]any{"project_id": c.Who.Project, "user_id": c.Who.User}
	}
	given := parseQuery(c.R.URL.RawQuery)["project_id"]
	if len(given) == 0 {
		return map[string]any{"project_id": nil}
	}
	return map[string]any{"project_id": given[len(given)-1]}
}

// Query parses the query string. It returns fault.Invalid if a key or a value is not UTF-8.
func (c *Call) Query() (url.Values, error) {
	q := parseQuery(c.R.URL.RawQuery)
	for key, values := range q {
		for _, text := range append(values, key) {
			if !utf8.ValidString(text) {
				return nil, fault.New(fault.Invalid, "Invalid query string parameters: %q is not UTF-8", text)
			}
		}
	}
	return q, nil
}

// parseQuery is url.ParseQuery with the leniency of the original: a % that does not begin an escaped byte is kept, and
// a semicolon is a separator as & is.
func parseQuery(raw string) url.Values {
	q := url.Values{}
	for pair := range strings.FieldsFuncSeq(raw, separator) {
		key, value, _ := strings.Cut(pair, "=")
		key = unescape(key)
		q[key] = append(q[key], unescape(value))
	}
	return q
}

func separator(r rune) bool { return r == '&' || r == ';' }

func unescape(text string) string {
	if plain, err := url.QueryUnescape(text); err == nil {
		return plain
	}
	var out strings.Builder
	for len(text) > 0 {
		n := 1
		if text[0] == '%' && len(text) >= 3 {
			n = 3
		}
		plain, err := url.QueryUnescape(text[:n])
		if err != nil {
			plain, n = "%", 1
		}
		out.WriteString(plain)
		text = text[n:]
	}
	return out.String()
}

// Read reads the request body, validates it against the schema and decodes it. It returns status 413 for a body over
// Service.MaxBody, 408 for one that arrives too slowly, and fault.Invalid for one that is not valid.
func (c *Call) Read(body api.Body, into any) error {
	data, err := c.ReadBody(c.Service.MaxBody)
	if refusal, ok := errors.AsType[*edge.Refusal](err); ok {
		return c.Refuse(refusal)
	}
	if err != nil {
		return err
	}
	c.Body = data
	return c.Service.Bodies.Read(body, c.Microversion, data, into)
}

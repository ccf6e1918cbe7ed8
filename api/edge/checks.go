package edge

import (
	"errors"
	"net/http"
	"strings"

	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
)

// MaxRequestLine is the maximum length of a request line in bytes, and that of a request's headers for http.Server's
// MaxHeaderBytes.
const MaxRequestLine = 64 << 10

// Reason is why a check refuses a request.
type Reason int

// The reasons, with the status that OpenStack's services usually give them.
const (
	LineTooLong     Reason = iota // 414: CheckRequestLine
	Unauthenticated               // 401: Authenticate; Err is the reason
	NoRoute                       // 404: CheckRoute, CheckSince
	NoMethod                      // 405: CheckMethod, CheckSince; Allow is set
	WrongType                     // 415: CheckMedia
	NotAcceptable                 // 406: CheckMedia
	NotAllowed                    // 403: Authorize; Rule is the policy rule
	BodyTooLarge                  // 413: ReadBody
	BodyTooSlow                   // 408: ReadBody
	BodyLost                      // 400: ReadBody; Err is the error of the connection
)

// Refusal is the error of a check.
type Refusal struct {
	Reason Reason
	Rule   string // of NotAllowed
	Limit  int64  // of BodyTooLarge, in bytes
	Err    error  // the cause; nil: there is none
}

// Error returns a text for the log. The API determines that of the answer.
func (r *Refusal) Error() string {
	if r.Err != nil {
		return "request refused: " + r.Err.Error()
	}
	return "request refused"
}

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.Err }

// CheckRequestLine refuses a request line over MaxRequestLine.
func (c *Call) CheckRequestLine() error {
	if len(c.uri) > MaxRequestLine {
		return &Refusal{Reason: LineTooLong}
	}
	return nil
}

// CheckDatabase refuses all requests after the database has lost its file.
func (c *Call) CheckDatabase() error {
	if c.core.database == nil {
		return nil
	}
	return c.core.database.Available()
}

// Authenticate sets Who, except on a public route. It refuses a request without a valid caller, and returns other
// errors of the Authenticator, such as that Keystone does not answer.
func (c *Call) Authenticate() error {
	if c.Public() {
		return nil
	}
	who, err := c.core.Authenticate(c.R)
	switch {
	case err == nil:
		c.Who, c.known = who, true
		return nil
	case fault.Is(err, fault.Forbidden):
		return c.RefuseCaller(err)
	}
	return err
}

// CheckUser refuses a caller without a name, for an API whose objects belong to their users.
func (c *Call) CheckUser() error {
	if c.Public() || c.Who.User != "" {
		return nil
	}
	return c.RefuseCaller(fault.New(fault.Forbidden, "X-Auth-Token has no user; send user:project, for example admin"))
}

// RefuseCaller returns the refusal of a caller that is not authenticated.
func (c *Call) RefuseCaller(err error) error {
	if c.core.Challenge != "" {
		c.W.Header().Set("Www-Authenticate", c.core.Challenge)
	}
	return &Refusal{Reason: Unauthenticated, Err: err}
}

// CheckRoute refuses a path that the API does not have.
func (c *Call) CheckRoute() error {
	if c.route == nil {
		return &Refusal{Reason: NoRoute}
	}
	return nil
}

// CheckMethod refuses a method that the route does not have.
func (c *Call) CheckMethod() error {
	if !c.hasMethod {
		return c.noMethod()
	}
	return nil
}

func (c *Call) noMethod() error {
	c.W.Header().Set("Allow", c.route.allow)
	return &Refusal{Reason: NoMethod}
}

// CheckSince refuses a method that the API does not have yet at a minor version.
func (c *Call) CheckSince(minor int) error {
	switch {
	case minor >= c.Spec.Since:
		return nil
	case c.Spec.StatusBefore == http.StatusMethodNotAllowed:
		return c.noMethod()
	}
	return &Refusal{Reason: NoRoute}
}

// CheckMedia refuses a body that is not JSON, and a client that does not accept JSON, if the method needs them.
func (c *Call) CheckMedia() error {
	if c.Spec.Body {
		if err := c.CheckBodyType(); err != nil {
			return err
		}
	}
	if c.Spec.Answer && !acceptsJSON(c.R.Header) {
		return &Refusal{Reason: NotAcceptable}
	}
	return nil
}

// CheckBodyType refuses a body that is not JSON. As in OpenStack's services the text before the first semicolon is
// compared exactly.
func (c *Call) CheckBodyType() error {
	if media, _, _ := strings.Cut(c.R.Header.Get("Content-Type"), ";"); media != JSON {
		return &Refusal{Reason: WrongType}
	}
	return nil
}

// CheckMediaFirst is CheckMedia for the methods with MediaFirst.
func (c *Call) CheckMediaFirst() error {
	if c.Spec.MediaFirst {
		return c.CheckMedia()
	}
	return nil
}

// Authorize refuses a request that the policy does not allow. An empty rule allows every request.
func (c *Call) Authorize(rule string, target map[string]any) error {
	ok, why := c.Allowed(rule, target)
	if ok {
		return nil
	}
	c.core.Log.Debug("policy refused request", "request_id", c.ID, "rule", rule, "user", c.Who.User,
		"project", c.Who.Project, "roles", c.Who.Roles, "why", why)
	return &Refusal{Reason: NotAllowed, Rule: rule}
}

// Allowed reports whether the policy allows the caller what a rule guards, and if not, the reason for the log.
func (c *Call) Allowed(rule string, target map[string]any) (ok bool, why string) {
	if rule == "" {
		return true, ""
	}
	if c.core.Enforcer == nil {
		return false, "no policy is configured"
	}
	return c.core.Enforcer.Allow(rule, c.Who, target)
}

// ReadBody reads the request body, of at most limit bytes. It is valid until the end of the call. The time that the
// client took does not count for the time limit of the request. Apart from refusals ReadBody returns fault.Unavailable
// if the request ended while its body waited for memory, and fault.Invalid, with the place, for a JSON text that no
// service accepts; see checkBody.
func (c *Call) ReadBody(limit int64) ([]byte, error) {
	if c.R.ContentLength > limit { // refuse it before reading, which would waste memory
		return nil, &Refusal{Reason: BodyTooLarge, Limit: limit}
	}
	data, release, err := c.core.bodies.Read(c.out.ResponseWriter, c.R, limit)
	_, large := errors.AsType[*http.MaxBytesError](err)
	switch {
	case err == nil:
		c.AtEnd(release) // what the handler decodes from the body is used until then
	case large:
		return nil, &Refusal{Reason: BodyTooLarge, Limit: limit}
	case errors.Is(err, rest.ErrSlowBody):
		return nil, &Refusal{Reason: BodyTooSlow, Err: err}
	case fault.Is(err, fault.Unavailable):
		return nil, err
	default:
		return nil, &Refusal{Reason: BodyLost, Err: err}
	}
	ctx, cancel := rest.Renew(c.R.Context())
	c.AtEnd(cancel)
	c.R = c.R.WithContext(ctx)
	if !c.Spec.AnyText {
		if err := checkBody(data); err != nil {
			return nil, err
		}
	}
	return data, nil
}

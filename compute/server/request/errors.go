package request

import (
	"net/http"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/fault"
)

// Refuse returns the error for a refusal of a check.
func (c *Call) Refuse(r *edge.Refusal) error {
	if r.Reason != edge.NotAllowed {
		return edge.UsualError(c.R, r)
	}
	if role := policies.Needs(r.Rule); role != "" {
		return fault.New(fault.Forbidden, "Policy doesn't allow %s to be performed; by default it needs %s, "+
			"which %s does not have.", r.Rule, role, c.Who.User)
	}
	return fault.New(fault.Forbidden, "Policy doesn't allow %s to be performed.", r.Rule)
}

// AuthorizeOther refuses a request about another user or another project, which what names, unless the policy allows
// it.
func AuthorizeOther(c *Call, rule, what string, target map[string]any) error {
	if c.Authorize(rule, target) == nil {
		return nil
	}
	return fault.New(fault.Forbidden, "Policy doesn't allow %s to be performed for %s; by default it needs the role "+
		"admin, which %s does not have.", rule, what, c.Who.User)
}

// UnknownPath returns the fault for a path that does not exist, or not in the version of the request.
func UnknownPath(c *Call) error {
	return fault.New(fault.NotFound, "there is nothing at %s", c.R.URL.Path)
}

// NotImplemented returns the error of a function that the API has and Berth does not implement.
func NotImplemented(format string, args ...any) error {
	return edge.StatusErrorf(http.StatusNotImplemented, format, args...)
}

// errorKey returns the key of the Compute API's error body for a status.
func errorKey(code int) string {
	switch code {
	case http.StatusBadRequest:
		return "badRequest"
	case http.StatusUnauthorized:
		return "unauthorized"
	case http.StatusForbidden:
		return "forbidden"
	case http.StatusNotFound:
		return "itemNotFound"
	case http.StatusMethodNotAllowed:
		return "badMethod"
	case http.StatusRequestTimeout:
		return "requestTimeout"
	case http.StatusConflict:
		return "conflictingRequest"
	case http.StatusRequestEntityTooLarge:
		return "overLimit"
	case http.StatusUnsupportedMediaType:
		return "badMediaType"
	case http.StatusNotImplemented:
		return "notImplemented"
	case http.StatusServiceUnavailable:
		return "serviceUnavailable"
	}
	return "computeFault"
}

// Encode writes the response for an error. Only administrators see names of hosts in it.
func (c *Call) Encode(f edge.Failure) {
	message := f.Message(c.ID)
	if c.server != nil {
		message = c.WithoutHosts(*c.server, message)
	}
	rest.WriteJSON(c.W, f.Status, map[string]any{errorKey(f.Status): map[string]any{"code": f.Status,
		"message": message}})
}

// WithoutHosts returns a text about a server as the caller may see it: without names of hosts, unless it is an
// administrator.
func (c *Call) WithoutHosts(s lifecycle.Server, text string) string {
	if c.Who.IsAdmin() {
		return text
	}
	return s.WithoutHosts(text)
}

package request

import (
	"net/http"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/operations"
)

// statuses are the statuses of faults that do not follow from their kind, by code.
var statuses = map[string]int{
	"RevisionNumberConstraintFailed": http.StatusPreconditionFailed,
	operations.RuleInUse:             http.StatusNotImplemented,
	operations.PolicyRefused:         http.StatusNotImplemented,
	"NoNetworkAvailable":             http.StatusServiceUnavailable,
	"MacAddressGenerationFailure":    http.StatusServiceUnavailable,
}

// notImplemented is the type of Neutron's errors with the status 501.
const notImplemented = "NotImplementedError"

// usualTypes are the types of errors without a code, by status.
var usualTypes = map[int]string{
	http.StatusBadRequest:            "HTTPBadRequest",
	http.StatusUnauthorized:          "HTTPUnauthorized",
	http.StatusForbidden:             "PolicyNotAuthorized",
	http.StatusNotFound:              "HTTPNotFound",
	http.StatusMethodNotAllowed:      "HTTPMethodNotAllowed",
	http.StatusConflict:              "HTTPConflict",
	http.StatusRequestEntityTooLarge: "HTTPRequestEntityTooLarge",
	http.StatusUnsupportedMediaType:  "HTTPUnsupportedMediaType",
	http.StatusInternalServerError:   "HTTPInternalServerError",
	http.StatusNotImplemented:        notImplemented,
	http.StatusServiceUnavailable:    "ServiceUnavailable",
}

// Refuse returns the error for a refusal of a check.
func (c *Call) Refuse(r *edge.Refusal) error {
	if r.Reason != edge.NotAllowed {
		return edge.UsualError(c.R, r)
	}
	return fault.New(fault.Forbidden, "(rule:%s) is disallowed by policy for user %s of project %s; use an account "+
		"that the rule allows, or change the policy file", r.Rule, c.Who.User, c.Who.Project)
}

// Encode writes the response for an error, in the form of Neutron.
func (c *Call) Encode(f edge.Failure) {
	kind := fault.CodeOf(f.Err)
	if own, ok := statuses[kind]; ok && f.TimeUp == nil {
		f.Status = own
	}
	if kind == "" || f.Status == http.StatusNotImplemented || f.Status == http.StatusInternalServerError {
		kind = usualTypes[f.Status]
	}
	rest.WriteJSON(c.W, f.Status, map[string]any{"NeutronError": map[string]any{"type": kind,
		"message": f.Message(c.ID), "detail": ""}})
}

package server

import (
	"net/http"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
)

// refuse returns the error for a refusal of a check.
func (c *call) refuse(r *edge.Refusal) error {
	if r.Reason != edge.NotAllowed {
		return edge.UsualError(c.R, r)
	}
	return fault.New(fault.Forbidden, "the policy rule %s does not allow this for user %s of project %s; use an "+
		"account that the rule allows, or change the policy file", r.Rule, c.Who.User, c.Who.Project)
}

// encode writes the response for an error: JSON, from which clients show the message.
func (c *call) encode(f edge.Failure) {
	rest.WriteJSON(c.W, f.Status, map[string]any{"error": map[string]any{"code": f.Status,
		"title": http.StatusText(f.Status), "message": f.Message(c.ID)}})
}

package server

import (
	"context"
	"net/http"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
)

// refuse returns the error for a refusal of a check.
func (c *call) refuse(r *edge.Refusal) error {
	switch r.Reason {
	case edge.LineTooLong:
		return edge.StatusErrorf(http.StatusRequestURITooLong, "the request line is over %d bytes", edge.MaxRequestLine)
	case edge.Unauthenticated:
		return &edge.StatusError{Status: http.StatusUnauthorized, Err: r.Err}
	case edge.NoRoute:
		return fault.New(fault.NotFound, "", "there is nothing at %s", c.R.URL.Path)
	case edge.NoMethod:
		return edge.StatusErrorf(http.StatusMethodNotAllowed,
			"method %s is not allowed on %s; the header Allow lists the allowed methods", c.R.Method, c.R.URL.Path)
	case edge.NotAllowed:
		return fault.New(fault.Forbidden, "", "the policy rule %s does not allow this for user %s of project %s; use an "+
			"account that the rule allows, or change the policy file", r.Rule, c.Who.User, c.Who.Project)
	case edge.BodyTooLarge:
		return edge.StatusErrorf(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", r.Limit)
	case edge.BodyTooSlow:
		return edge.StatusErrorf(http.StatusRequestTimeout, "%w", r.Err)
	case edge.BodyLost:
		return fault.New(fault.Invalid, "", "the body is incomplete: %w", r.Err)
	}
	return r
}

// encode writes the response for an error: JSON, from which clients show the message. The text of an internal error is
// only in the log.
func (c *call) encode(f edge.Failure) {
	message := fault.TextOf(f.Err)
	switch {
	case f.TimeUp && fault.CodeOf(f.Err) == "":
		message = fault.TextOf(context.Cause(c.R.Context()))
	case f.Status == http.StatusInternalServerError:
		message = "Internal error; the log of Berth has the reason under " + c.ID + "."
	}
	rest.WriteJSON(c.W, f.Status, map[string]any{"error": map[string]any{"code": f.Status,
		"title": http.StatusText(f.Status), "message": message}})
}

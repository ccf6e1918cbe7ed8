package server

import (
	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/rest"
)

// call is one request and its response.
type call struct {
	edge.Call
	srv     *server
	version compute.Version
	project string // the project id in the path, or empty
	rule    string // the policy rule that visibleServer checks; empty: none
}

// writeJSON writes a response with a body.
func (c *call) writeJSON(status int, body any) error {
	rest.WriteJSON(c.W, status, body)
	return nil
}

// writeStatus writes a response without a body.
func (c *call) writeStatus(status int) error {
	c.W.WriteHeader(status)
	return nil
}

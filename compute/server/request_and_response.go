package server

import (
	"context"
	"net/http"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/api/rest"
)

// call is one request and its response.
type call struct {
	w       http.ResponseWriter
	r       *http.Request
	who     identity.Identity
	version compute.Version
	project string // the project id in the path, or empty
	budget  *rest.BodyBudget
	end     context.CancelFunc // ends the context of a request whose body was read; nil: no body was read
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

// Package server is the HTTP server of the image service: the part of the Image API v2 that clients need to list, show,
// create, change, upload, download, share and delete images.
//
// Uploads can be continued: a request PUT /v2/images/{id}/file may have a header Content-Range, and
// GET /berth/v1/images/{id}/upload returns how much was received. Downloads can be continued with Range. Images are
// imported from staged data or from a web server; the last import of an image is its only task.
//
// The files, from the bottom to the top: attributes (of images, and their documents), imports, call, images, data,
// import_routes, list, members (and tags), errors, routes, server.
package server

import (
	"context"
	"net/http"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/image/policies"
)

// New returns the handler. It starts nothing.
func New(o Options) http.Handler {
	o.Options = o.WithDefaults(policies.Default())
	if o.Limits.Size == 0 {
		o.Limits.Size = 1 << 40
	}
	o.Metrics = edge.NewMetrics("berth_image_")
	s := &server{o}
	s.watchState()
	return edge.New(edge.API[*call]{
		Options: o.Options, Bodies: rest.NewBodyBudget(8*maxBody, maxBody),
		IDHeaders: []string{"X-Openstack-Request-Id"},
		Routes:    s.routes(), HeadIsGet: true, Escaped: true,
		NewCall: func() *call { return &call{srv: s} }, Prepare: (*call).removeSlash,
		Checks: []func(*call) error{(*call).CheckRequestLine, (*call).CheckRoute, (*call).Authenticate, (*call).checkUser,
			(*call).CheckMethod},
		Refuse: (*call).refuse, Encode: (*call).encode, Health: edge.Health{Check: s.checkHealth},
	})
}

// checkHealth returns a sentence for clients, and its cause for the log.
func (s *server) checkHealth(context.Context) (reason string, cause error) {
	if err := s.Store.Check(); err != nil {
		return "The directory of images takes no writes.", err
	}
	return "", nil
}

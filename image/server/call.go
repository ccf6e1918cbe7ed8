package server

import (
	"strings"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/image/store"
)

// Options are what a server needs. Store must be set.
type Options struct {
	Store   *store.Store
	Limits  store.Limits // of images and projects; the size of an image is 1 TiB if it is not set
	Imports *Imports     // nil: images are uploaded only
	Methods []string     // [DEFAULT] enabled_import_methods
	edge.Options
}

// maxBody is the maximum size of a body that is not the data of an image, in bytes.
const maxBody = 1 << 20

type server struct{ Options }

// call is one request and its response.
type call struct {
	edge.Call
	srv *server
}

// checkUser refuses a caller without a project, who would own images without an owner.
func (c *call) checkUser() error {
	if c.Public() || c.Who.User != "" && c.Who.Project != "" {
		return nil
	}
	return c.RefuseCaller(fault.New(fault.Forbidden, "the token is for no project; use one for a project"))
}

// removeSlash removes a slash at the end of the path.
func (c *call) removeSlash() {
	if path := c.R.URL.Path; len(path) > 1 && strings.HasSuffix(path, "/") {
		c.SetPath(strings.TrimSuffix(path, "/"))
	}
}

// method is one method of a path, and methods are all of them.
type (
	method  = edge.Method[*call]
	methods = map[string]method
)

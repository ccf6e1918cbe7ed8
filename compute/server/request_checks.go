package server

import (
	"net/http"
	"strings"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/fault"
)

// checks returns the checks of every request, in their order.
func checks() []func(*call) error {
	return []func(*call) error{(*call).CheckRequestLine, (*call).checkStore, (*call).negotiate, (*call).CheckRoute,
		(*call).Authenticate, (*call).checkUser, (*call).checkProject, (*call).CheckMethod, (*call).checkHost,
		(*call).checkPolicy}
}

// checkStore refuses all requests after the database has lost its file.
func (c *call) checkStore() error { return c.srv.Store.Available() }

// negotiate determines the microversion, on the paths that have one, and sets it in the headers of the response. Vary
// is set because the response depends on it.
func (c *call) negotiate() error {
	c.version = compute.Min
	if !strings.HasPrefix(c.R.URL.Path, "/v2.1") {
		return nil
	}
	version, err := compute.Negotiate(c.R.Header)
	c.version, c.Version = version, version
	h := c.W.Header()
	h.Set(compute.VersionHeader, compute.Service+" "+version.String())
	h.Set(compute.LegacyVersionHeader, version.String())
	h.Set("Vary", compute.VersionHeader+", "+compute.LegacyVersionHeader)
	if fault.CodeOf(err) == compute.NotServed {
		return &edge.StatusError{Status: http.StatusNotAcceptable, Err: err}
	}
	return err
}

// checkUser refuses a caller without a name. Placement accepts one; a server must have a user.
func (c *call) checkUser() error {
	if c.Public() || c.Who.User != "" {
		return nil
	}
	return c.RefuseCaller(fault.New(fault.Forbidden, "X-Auth-Token has no user; send user:project, for example admin"))
}

// checkProject returns fault.Invalid (400) if the path has another project than the token.
func (c *call) checkProject() error {
	if c.Public() || c.project == "" || c.project == c.Who.Project {
		return nil
	}
	return fault.New(fault.Invalid, "the path has project %q, the token project %q; use the same project",
		c.project, c.Who.Project)
}

// checkPolicy refuses a request that the policy does not allow to the caller, for its own project. Whether it allows a
// request about a server is checked by visibleServer.
func (c *call) checkPolicy() error { return c.Authorize(c.Spec.Rule, c.owner()) }

// owner returns the attributes of what the caller creates or lists, for the policy, and the auth_strategy, to which the
// rules of agents refer.
func (c *call) owner() map[string]any {
	return map[string]any{"project_id": c.Who.Project, "user_id": c.Who.User, "auth_strategy": c.srv.Strategy}
}

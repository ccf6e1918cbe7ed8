package request

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

// Checks returns the checks of every request, in their order.
func Checks() []func(*Call) error {
	return []func(*Call) error{(*Call).CheckRequestLine, (*Call).CheckDatabase, (*Call).negotiate, (*Call).CheckRoute,
		(*Call).Authenticate, (*Call).CheckUser, (*Call).checkProject, (*Call).CheckMethod, (*Call).checkHost,
		(*Call).checkQuery, (*Call).checkPolicy}
}

// negotiate determines the microversion, on the paths that have one, and sets it in the headers of the response. Vary
// is set because the response depends on it. Paths below /v2 have the first one.
func (c *Call) negotiate() error {
	c.Microversion = compute.Min
	if !strings.HasPrefix(c.R.URL.Path, "/v2.1") || c.V2 {
		return nil
	}
	version, err := compute.Negotiate(c.R.Header)
	c.Microversion, c.Version = version, version
	h := c.W.Header()
	h.Set(compute.VersionHeader, compute.Service+" "+version.String())
	h.Set(compute.LegacyVersionHeader, version.String())
	h.Set("Vary", compute.VersionHeader+", "+compute.LegacyVersionHeader)
	if fault.CodeOf(err) == compute.NotServed {
		return &edge.StatusError{Status: http.StatusNotAcceptable, Err: err}
	}
	return err
}

// checkProject returns fault.Invalid (400) if the path has another project than the token.
func (c *Call) checkProject() error {
	if c.Public() || c.Project == "" || c.Project == c.Who.Project {
		return nil
	}
	return fault.New(fault.Invalid, "the path has project %q, the token project %q; use the same project",
		c.Project, c.Who.Project)
}

// checkPolicy refuses a request that the policy does not allow to the caller, for its own project. Whether it allows a
// request about a server is checked by visibleServer.
func (c *Call) checkPolicy() error { return c.Authorize(c.Spec.Rule, c.Owner()) }

// checkHost returns fault.Invalid (400) if the path has a {host} that is not a valid host name.
func (c *Call) checkHost() error {
	if !strings.Contains(c.Route(), "{host}") {
		return nil
	}
	return provider.CheckHostName(c.R.PathValue("host"))
}

// HostFilter returns the parameter `host` of a list; empty: any host. It returns fault.Invalid (400) for a name that is
// not valid.
func HostFilter(q url.Values) (string, error) {
	name := q.Get("host")
	if name == "" {
		return "", nil
	}
	return name, provider.CheckHostName(name)
}

package server

import (
	"net/http"

	"github.com/openberth/berth/api/edge"
	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/policies"
)

// checks returns the checks of every request. They have the same order as in the original, so that a request with
// several faults gets the same status.
func checks() []func(*call) error {
	return []func(*call) error{(*call).CheckRequestLine, (*call).CheckDatabase, (*call).Authenticate, (*call).negotiate,
		(*call).checkContentType, (*call).CheckRoute, (*call).CheckMethod, (*call).CheckMediaFirst, (*call).checkSince,
		(*call).CheckMedia, (*call).checkPolicy}
}

// negotiate determines the microversion. It returns status 400 for one that is not valid, and 406 for one that is not
// supported.
func (c *call) negotiate() error {
	version, err := api.RequestVersion(c.R.Header)
	if fault.CodeOf(err) == api.CodeVersion {
		return &edge.StatusError{Status: http.StatusNotAcceptable, Err: err}
	}
	if err != nil {
		return edge.StatusErrorf(http.StatusBadRequest, "%s", fault.TextOf(err))
	}
	c.version, c.Version = version, version
	h := c.W.Header()
	h.Set(api.VersionHeader, version.Header())
	h.Set("Vary", "openstack-api-version")
	return nil
}

// checkContentType refuses a body without a type.
func (c *call) checkContentType() error {
	if c.R.ContentLength > 0 && c.R.Header.Get("Content-Type") == "" {
		return edge.StatusErrorf(http.StatusBadRequest, "content-type header required when content-length > 0")
	}
	return nil
}

func (c *call) checkSince() error { return c.CheckSince(int(c.version)) }

func (c *call) checkPolicy() error { return c.Authorize(c.Spec.Rule, c.target(c.Spec.Rule)) }

// target returns the attributes of a request that a rule may refer to.
func (c *call) target(rule string) map[string]any {
	if rule != policies.Usages {
		return map[string]any{"project_id": c.Who.Project, "user_id": c.Who.User}
	}
	given := parseQuery(c.R.URL.RawQuery)["project_id"]
	if len(given) == 0 {
		return map[string]any{"project_id": nil}
	}
	return map[string]any{"project_id": given[len(given)-1]}
}

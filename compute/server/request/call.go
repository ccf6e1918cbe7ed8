package request

import (
	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/compute/lifecycle"
)

// Call is one request and its response.
type Call struct {
	edge.Call
	Microversion compute.Version
	Strategy     string // the auth_strategy, to which the rules of agents refer
	Project      string // the project id in the path, or empty
	V2           bool   // the path is below /v2: the version is 2.1, and unknown keys of bodies are ignored

	server *lifecycle.Server // that the path names, once it is read
}

// Has reports whether the microversion of the request is v or newer.
func (c *Call) Has(v compute.Version) bool { return c.Microversion.Has(v) }

// Owner returns the attributes of what the caller creates or lists, for the policy.
func (c *Call) Owner() map[string]any {
	return map[string]any{"project_id": c.Who.Project, "user_id": c.Who.User, "auth_strategy": c.Strategy}
}

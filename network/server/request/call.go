package request

import (
	"strconv"
	"strings"
	"time"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/operations"
	"github.com/openberth/berth/network/policies"
	"github.com/openberth/berth/network/store"
)

// Service is what the handlers of all resources need.
type Service struct {
	Ops      *operations.Service
	Strategy string // the auth_strategy
	Now      func() time.Time
}

// Call is one request and its response.
type Call struct {
	edge.Call
	Service *Service
	shares  map[string]bool // the ids of the objects that are shared with the caller's project; see WithShares
	Network store.Network   // that of the object to create; see draftInNetwork
}

// CheckPolicy checks the rule of a method that needs no object.
func (c *Call) CheckPolicy() error { return c.Authorize(c.Spec.Rule, c.Target(c.Who.Project, nil)) }

// Target returns the attributes of an object for the policy. Those that rules of every kind refer to are always set.
func (c *Call) Target(project string, more map[string]any) map[string]any {
	t := map[string]any{"project_id": project, "tenant_id": project, "shared": false, "router:external": false,
		"network:project_id": nil, "network:tenant_id": nil, "owner_kind": "",
		"wildcard": false, "auth_strategy": c.Service.Strategy}
	for key, value := range more {
		t[key] = value
	}
	return t
}

// Permits reports whether the policy allows a rule; a rule that does not exist allows everything.
func (c *Call) Permits(rule string, target map[string]any) bool {
	if !policies.Has(rule) {
		return true
	}
	ok, _ := c.Allowed(rule, target)
	return ok
}

// revision returns the revision that an update or a deletion requires: the header If-Match, revision_number=N.
func (c *Call) revision() (int, error) {
	text := c.R.Header.Get("If-Match")
	if text == "" {
		return operations.NoRevision, nil
	}
	number, found := strings.CutPrefix(strings.Trim(text, `"`), "revision_number=")
	n, err := strconv.Atoi(number)
	if !found || err != nil {
		return 0, fault.New(fault.Invalid, "the header If-Match is %q; send revision_number=NUMBER", text)
	}
	return n, nil
}

// method is one method of a path, and methods are all of them.
type (
	method  = edge.Method[*Call]
	Methods = map[string]method
)

// RemoveSuffix removes the suffix .json, which older clients append to paths, and a slash at the end.
func (c *Call) RemoveSuffix() {
	path := strings.TrimSuffix(c.R.URL.Path, ".json")
	if len(path) > 1 {
		path = strings.TrimSuffix(path, "/")
	}
	if path != c.R.URL.Path {
		c.SetPath(path)
	}
}

package server

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

// service is what the handlers of all resources need.
type service struct {
	ops      *operations.Service
	strategy string // the auth_strategy
	now      func() time.Time
}

// call is one request and its response.
type call struct {
	edge.Call
	service *service
	shares  map[string]bool // the ids of the objects that are shared with the caller's project; see withShares
	network store.Network   // that of the object to create; see draftInNetwork
}

// checkPolicy checks the rule of a method that needs no object.
func (c *call) checkPolicy() error { return c.Authorize(c.Spec.Rule, c.target(c.Who.Project, nil)) }

// target returns the attributes of an object for the policy. Those that rules of every kind refer to are always set.
func (c *call) target(project string, more map[string]any) map[string]any {
	t := map[string]any{"project_id": project, "tenant_id": project, "shared": false, "router:external": false,
		"network:project_id": nil, "network:tenant_id": nil, "owner_kind": "",
		"wildcard": false, "auth_strategy": c.service.strategy}
	for key, value := range more {
		t[key] = value
	}
	return t
}

// allowed reports whether the policy allows a rule; a rule that does not exist allows everything.
func (c *call) allowed(rule string, target map[string]any) bool {
	if !policies.Has(rule) {
		return true
	}
	ok, _ := c.Allowed(rule, target)
	return ok
}

// revision returns the revision that an update or a deletion requires: the header If-Match, revision_number=N.
func (c *call) revision() (int, error) {
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
	method  = edge.Method[*call]
	methods = map[string]method
)

// removeSuffix removes the suffix .json, which older clients append to paths, and a slash at the end.
func (c *call) removeSuffix() {
	path := strings.TrimSuffix(c.R.URL.Path, ".json")
	if len(path) > 1 {
		path = strings.TrimSuffix(path, "/")
	}
	if path != c.R.URL.Path {
		c.SetPath(path)
	}
}

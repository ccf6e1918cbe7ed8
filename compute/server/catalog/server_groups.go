package catalog

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
)

// serverGroups are the handlers of server groups.
type serverGroups struct{ *Handlers }

// serverGroupRoutes returns the paths of server groups.
func serverGroupRoutes(h *Handlers) request.Routes {
	s := serverGroups{h}
	return request.Routes{
		"/v2.1/os-server-groups": {
			http.MethodGet:  request.Guarded(policies.ListServerGroups, s.listServerGroups),
			http.MethodPost: request.Guarded(policies.CreateServerGroup, s.createServerGroup),
		},
		"/v2.1/os-server-groups/{id}": {
			http.MethodGet:    s.ofServerGroup(policies.ShowServerGroup, s.showServerGroup),
			http.MethodDelete: s.ofServerGroup(policies.DeleteServerGroup, s.deleteServerGroup),
		},
	}
}

// ofServerGroup returns a method about the group of the path. rule is checked for the project of the group too.
func (s serverGroups) ofServerGroup(rule string, handle func(*request.Call, store.ServerGroup) error) request.Method {
	return request.Guarded(rule, func(c *request.Call) error {
		g, err := s.Groups.ServerGroup(c.R.Context(), c.R.PathValue("id"))
		if err != nil {
			return err
		}
		if err := c.Authorize(rule, map[string]any{"project_id": g.Project, "user_id": g.User}); err != nil {
			return err
		}
		return handle(c, g)
	})
}

// listServerGroups is GET /v2.1/os-server-groups: those of the caller's project; admins get all with all_projects.
// Nova's rules are os_compute_api:os-server-groups:index and index:all_projects.
func (s serverGroups) listServerGroups(c *request.Call) error {
	q := c.R.URL.Query()
	limit, offset, err := readLimitAndOffset(q)
	if err != nil {
		return err
	}
	project := c.Who.Project
	if q.Has("all_projects") && c.Who.IsAdmin() {
		if err := c.Authorize(policies.ListAllServerGroups, c.Owner()); err != nil {
			return err
		}
		project = ""
	}
	found, err := s.Groups.ServerGroups(c.R.Context(), project)
	if err != nil {
		return err
	}
	found = found[min(offset, len(found)):]
	list := make([]compute.ServerGroup, 0, len(found))
	for _, g := range found[:min(limit, len(found))] {
		list = append(list, serverGroupView(c, g))
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"server_groups": list})
}

// readLimitAndOffset reads limit, where 0 means the longest page, and offset.
func readLimitAndOffset(q url.Values) (limit, offset int, err error) {
	for key, into := range map[string]*int{"limit": &limit, "offset": &offset} {
		if text := q.Get(key); q.Has(key) {
			n, err := strconv.Atoi(text)
			if err != nil || n < 0 {
				return 0, 0, fault.New(fault.Invalid, "%s must be a non-negative integer; it is %q", key,
					edge.Clip(text))
			}
			*into = n
		}
	}
	if limit == 0 {
		limit = request.MaxLimit
	}
	return min(limit, request.MaxLimit), offset, nil
}

// serverGroupView returns the view of a group at the version of the call.
func serverGroupView(c *request.Call, g store.ServerGroup) compute.ServerGroup {
	v := compute.ServerGroup{ID: g.ID, Name: g.Name, Members: append([]string{}, g.Members...)}
	if c.Has(compute.ServerGroupOwner) {
		v.GroupOwner = &compute.GroupOwner{ProjectID: g.Project, UserID: g.User}
	}
	if !c.Has(compute.GroupPolicyRules) {
		v.PolicyList = &compute.PolicyList{Policies: []string{string(g.Policy)}, Metadata: map[string]string{}}
		return v
	}
	v.ServerGroupPolicy = &compute.ServerGroupPolicy{Policy: string(g.Policy), Rules: map[string]int{}}
	if g.MaxPerHost > 0 {
		v.Rules[compute.MaxServerPerHost] = g.MaxPerHost
	}
	return v
}

func (s serverGroups) showServerGroup(c *request.Call, g store.ServerGroup) error {
	return c.WriteJSON(http.StatusOK, map[string]any{"server_group": serverGroupView(c, g)})
}

// deleteServerGroup is DELETE /v2.1/os-server-groups/{id}. The servers of the group stay, and are not restricted any
// more.
func (s serverGroups) deleteServerGroup(c *request.Call, g store.ServerGroup) error {
	if err := s.Groups.DeleteServerGroup(c.R.Context(), g.ID); err != nil {
		return err
	}
	return c.WriteStatus(http.StatusNoContent)
}

// createServerGroup is POST /v2.1/os-server-groups. Nova's rule is os_compute_api:os-server-groups:create.
func (s serverGroups) createServerGroup(c *request.Call) error {
	g, err := readServerGroup(c)
	if err != nil {
		return err
	}
	limits, err := s.Quotas.Limits(c.R.Context(), g.Project, g.User)
	if err != nil {
		return err
	}
	g.ID, g.Created = s.NewID(), s.Now()
	if err := s.Groups.CreateServerGroup(c.R.Context(), g, limits); err != nil {
		return err
	}
	return s.showServerGroup(c, g)
}

// readServerGroup reads the body.
func readServerGroup(c *request.Call) (g store.ServerGroup, err error) {
	o, others, err := c.Object("server_group")
	if err == nil {
		err = c.RefuseOthers("server_group", others)
	}
	if err != nil {
		return g, err
	}
	g = store.ServerGroup{Project: c.Who.Project, User: c.Who.User, Name: request.NameText(o, "name")}
	known := []string{string(schedule.AntiAffinity), string(schedule.Affinity)}
	if c.Has(compute.SoftPolicies) {
		known = append(known, string(schedule.SoftAntiAffinity), string(schedule.SoftAffinity))
	}
	key, policy := "policy", ""
	if c.Has(compute.GroupPolicyRules) {
		o.Require(key)
		o.Text(key, &policy, 255)
		g.MaxPerHost = readGroupRules(c, o, policy)
	} else {
		var list []string
		key = "policies"
		o.Require(key)
		if o.Decode(key, &list, "a list with one policy"); len(list) == 1 {
			policy = list[0]
		} else {
			o.Invalid(key, "it has %d policies; a group has exactly one", len(list))
		}
	}
	if !slices.Contains(known, policy) {
		o.Invalid(key, "it is %q, and should be one of %q", edge.Clip(policy), known)
	}
	g.Policy = schedule.GroupPolicy(policy)
	return g, o.Finish()
}

// readGroupRules reads the rules of a group: how many members one host may have; 0: it has no rule.
func readGroupRules(c *request.Call, o *edge.Object, policy string) (maxPerHost int) {
	var keys map[string]json.RawMessage
	if !o.Decode("rules", &keys, "an object") || len(keys) == 0 {
		return 0
	}
	if policy != string(schedule.AntiAffinity) {
		o.Invalid("rules", "Only anti-affinity policy supports rules.")
		return 0
	}
	rules := c.NewObject("server_group.rules", keys)
	rules.Number(compute.MaxServerPerHost, &maxPerHost, 1, 1_000_000)
	if err := rules.Finish(); err != nil {
		o.Invalid("rules", "%s", fault.TextOf(err))
	}
	return maxPerHost
}

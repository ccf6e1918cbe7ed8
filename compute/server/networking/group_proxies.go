package networking

import (
	"cmp"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
)

// proxies are the handlers of objects of the network service that the Compute API has until 2.35.
type proxies struct {
	networks Networks // nil: there are none
	groups   GroupFinder
}

func newProxies(s *Handlers) proxies { return proxies{s.Networks, s.Groups()} }

// groupProxyRoutes returns the paths of the security groups of projects, which the Compute API has until 2.35. The
// network service has these groups.
func groupProxyRoutes(p proxies) request.Routes {
	until := func(rule string, handle func(*request.Call) error) request.Method {
		return request.Until(compute.NoNetworkProxy, request.Guarded(rule, handle))
	}
	return request.Routes{
		"/v2.1/os-security-groups": {
			http.MethodGet:  until(policies.ListProjectGroups, p.listProjectGroups),
			http.MethodPost: until(policies.CreateProjectGroup, p.createProjectGroup),
		},
		"/v2.1/os-security-groups/{group}": {
			http.MethodGet:    until(policies.ShowProjectGroup, p.showProjectGroup),
			http.MethodPut:    until(policies.UpdateProjectGroup, p.updateProjectGroup),
			http.MethodDelete: until(policies.DeleteProjectGroup, p.deleteProjectGroup),
		},
		"/v2.1/os-security-group-rules":        {http.MethodPost: until(policies.CreateGroupRule, p.createGroupRule)},
		"/v2.1/os-security-group-rules/{rule}": {http.MethodDelete: until(policies.DeleteGroupRule, p.deleteGroupRule)},
	}
}

// projectGroups returns the groups of the caller's project that a query selects; of all projects if all is true.
func (p proxies) projectGroups(c *request.Call, q url.Values, all bool) ([]network.SecurityGroup, error) {
	has, _, err := p.groups.has(c.R.Context())
	if err != nil || !has {
		return nil, err
	}
	if !all {
		q.Set("tenant_id", c.Who.Project)
	}
	return p.networks.SecurityGroups(c.R.Context(), q)
}

// listProjectGroups is GET /v2.1/os-security-groups, sorted by project and name.
func (p proxies) listProjectGroups(c *request.Call) error {
	q := c.R.URL.Query()
	limit, _, err := c.ReadPage(q)
	if err != nil {
		return err
	}
	offset := 0
	if text := q.Get("offset"); text != "" {
		if offset, err = strconv.Atoi(text); err != nil || offset < 0 {
			return fault.New(fault.Invalid, "offset must be a non-negative integer; it is %q", edge.Clip(text))
		}
	}
	all, _ := request.Style.Bool(q.Get("all_tenants"))
	found, err := p.projectGroups(c, url.Values{}, all && c.Who.IsAdmin())
	if err != nil {
		return err
	}
	slices.SortStableFunc(found, func(a, b network.SecurityGroup) int {
		return cmp.Or(strings.Compare(a.Project, b.Project), strings.Compare(a.Name, b.Name))
	})
	page := found[min(offset, len(found)):]
	views := []compute.SecurityGroup{}
	for _, g := range page[:min(limit, len(page))] {
		views = append(views, groupView(g, found))
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"security_groups": views})
}

// projectGroup returns the group with an id that the caller's project has; an administrator's may be of any project.
// others are the groups of the same project.
func (p proxies) projectGroup(c *request.Call, id string) (found network.SecurityGroup,
	others []network.SecurityGroup, err error) {
	if !request.IsUUID(id) {
		return found, nil, fault.New(fault.Invalid, "Security group id should be a UUID; it is %q", edge.Clip(id))
	}
	all, err := p.projectGroups(c, url.Values{}, c.Who.IsAdmin())
	if err != nil {
		return found, nil, err
	}
	at := slices.IndexFunc(all, func(g network.SecurityGroup) bool { return g.ID == id })
	if at < 0 {
		return found, nil, fault.New(fault.NotFound, "Security group %s not found.", id)
	}
	found = all[at]
	others = slices.DeleteFunc(all, func(g network.SecurityGroup) bool { return g.Project != found.Project })
	return found, others, nil
}

// showProjectGroup is GET /v2.1/os-security-groups/{group}.
func (p proxies) showProjectGroup(c *request.Call) error {
	found, others, err := p.projectGroup(c, c.R.PathValue("group"))
	if err != nil {
		return err
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"security_group": groupView(found, others)})
}

// readGroup reads the name and the description of a group.
func readGroup(c *request.Call) (attributes map[string]any, err error) {
	o, others, err := c.Object("security_group")
	if err != nil {
		return nil, err
	}
	if err := c.RefuseOthers("security_group", others); err != nil {
		return nil, err
	}
	name, description := "", ""
	o.Require("name")
	if o.Text("name", &name, 255) && strings.TrimSpace(name) == "" {
		o.Invalid("name", "Security group name cannot be empty")
	}
	o.Text("description", &description, 255)
	return map[string]any{"name": name, "description": description}, o.Finish()
}

// createProjectGroup is POST /v2.1/os-security-groups.
func (p proxies) createProjectGroup(c *request.Call) error {
	attributes, err := readGroup(c)
	if err != nil {
		return err
	}
	if err := p.requireGroups(c); err != nil {
		return err
	}
	attributes["tenant_id"] = c.Who.Project
	made, err := p.networks.CreateSecurityGroup(c.R.Context(), attributes)
	if fault.Is(err, fault.Conflict) { // the quota
		return fault.Wrap(fault.Forbidden, err)
	}
	if err != nil {
		return err
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"security_group": groupView(made, []network.SecurityGroup{made})})
}

// requireGroups returns a fault if the network service has no security groups.
func (p proxies) requireGroups(c *request.Call) error {
	has, _, err := p.groups.has(c.R.Context())
	if err == nil && !has {
		return request.NotImplemented("security groups cannot be created: %s", noGroups)
	}
	return err
}

// updateProjectGroup is PUT /v2.1/os-security-groups/{group}.
func (p proxies) updateProjectGroup(c *request.Call) error {
	attributes, err := readGroup(c)
	if err != nil {
		return err
	}
	found, others, err := p.projectGroup(c, c.R.PathValue("group"))
	if err != nil {
		return err
	}
	changed, err := p.networks.UpdateSecurityGroup(c.R.Context(), found.ID, attributes)
	if err != nil {
		return asInvalid(err)
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"security_group": groupView(changed, others)})
}

// asInvalid returns fault.Invalid for a conflict in the network service, as the Compute API documents.
func asInvalid(err error) error {
	if fault.Is(err, fault.Conflict) {
		return fault.Wrap(fault.Invalid, err)
	}
	return err
}

// deleteProjectGroup is DELETE /v2.1/os-security-groups/{group}.
func (p proxies) deleteProjectGroup(c *request.Call) error {
	found, _, err := p.projectGroup(c, c.R.PathValue("group"))
	if err != nil {
		return err
	}
	return c.Done(http.StatusAccepted, asInvalid(p.networks.DeleteSecurityGroup(c.R.Context(), found.ID)))
}

// groupRuleRequest is the body of a request for a rule.
type groupRuleRequest struct {
	parent, protocol, cidr, group string
	from, to                      int
	ports                         bool // from and to were given
}

// createGroupRule is POST /v2.1/os-security-group-rules.
func (p proxies) createGroupRule(c *request.Call) error {
	want, err := readGroupRule(c)
	if err != nil {
		return err
	}
	parent, others, err := p.projectGroup(c, want.parent)
	if err != nil {
		return err
	}
	if err := p.checkRemoteGroup(c, want.group); err != nil {
		return err
	}
	made, err := p.networks.CreateSecurityGroupRule(c.R.Context(), want.attributes(parent))
	if err != nil {
		return asInvalid(err)
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"security_group_rule": groupRule(made, others)})
}

// checkRemoteGroup returns fault.NotFound for a group that the caller's project does not see: compute has the rights of
// an administrator in the network service, which therefore does not check it. Empty: the rule has none.
func (p proxies) checkRemoteGroup(c *request.Call, id string) error {
	if id == "" || c.Who.IsAdmin() {
		return nil
	}
	_, shared, err := p.groups.has(c.R.Context())
	if err != nil {
		return err
	}
	found, err := p.groups.one(c.R.Context(), c.Who.Project, id, shared)
	if err == nil && found.ID != id { // a group of the project has this id as its name
		err = fault.New(fault.NotFound, "Security group %s not found.", id)
	}
	return err
}

// readGroupRule reads the body. A protocol and its ports are required unless the traffic of a group is permitted.
func readGroupRule(c *request.Call) (want groupRuleRequest, err error) {
	o, others, err := c.Object("security_group_rule")
	if err != nil {
		return want, err
	}
	if err := c.RefuseOthers("security_group_rule", others); err != nil {
		return want, err
	}
	o.Require("parent_group_id")
	o.Text("parent_group_id", &want.parent, 255)
	o.Text("ip_protocol", &want.protocol, 16)
	o.Text("cidr", &want.cidr, 64)
	o.Text("group_id", &want.group, 255)
	from, to := o.Number("from_port", &want.from, -1, 65535), o.Number("to_port", &want.to, -1, 65535)
	want.protocol, want.ports = strings.ToLower(want.protocol), from && to
	if err := o.Finish(); err != nil {
		return want, err
	}
	if prefix, err := netip.ParsePrefix(want.cidr); want.cidr != "" && err != nil {
		return want, fault.New(fault.Invalid, "Invalid cidr %s.", edge.Clip(want.cidr))
	} else if want.cidr != "" {
		want.cidr = prefix.Masked().String()
	}
	return want, want.check()
}

// check returns fault.Invalid for a rule that is not complete or not valid.
func (r groupRuleRequest) check() error {
	least := 1
	switch r.protocol {
	case "icmp":
		least = -1
	case "tcp", "udp":
	case "":
		if r.group != "" && !r.ports {
			return nil
		}
		return fault.New(fault.Invalid,
			"Not enough parameters to build rule: ip_protocol is missing; give tcp, udp or icmp")
	default:
		return fault.New(fault.Invalid, "Invalid IP protocol %s. Use tcp, udp or icmp.", edge.Clip(r.protocol))
	}
	switch {
	case r.group != "" && !request.IsUUID(r.group):
		return fault.New(fault.Invalid, "Security group id should be a UUID; it is %q", edge.Clip(r.group))
	case !r.ports && r.group != "":
		return nil
	case !r.ports:
		return fault.New(fault.Invalid, "Not enough parameters to build rule: give from_port and to_port")
	case r.from < least || r.to < least, r.protocol != "icmp" && r.from > r.to:
		return fault.New(fault.Invalid,
			"Invalid port range %d:%d. Valid ports of TCP and UDP are between 1 and 65535, and "+
				"from_port is not more than to_port.", r.from, r.to)
	case r.protocol == "icmp" && max(r.from, r.to) > 255:
		return fault.New(fault.Invalid, "Invalid port range %d:%d. Types and codes of ICMP are between -1 and 255.",
			r.from,
			r.to)
	}
	return nil
}

// attributes returns the rule in the words of the network service.
func (r groupRuleRequest) attributes(parent network.SecurityGroup) map[string]any {
	a := map[string]any{"security_group_id": parent.ID, "tenant_id": parent.Project, "direction": "ingress",
		"ethertype": "IPv4"}
	if r.protocol != "" {
		a["protocol"] = r.protocol
	}
	if r.ports && r.from >= 0 {
		a["port_range_min"] = r.from
	}
	if r.ports && r.to >= 0 {
		a["port_range_max"] = r.to
	}
	if r.group != "" {
		a["remote_group_id"] = r.group
		return a
	}
	a["remote_ip_prefix"] = cmp.Or(r.cidr, "0.0.0.0/0")
	if strings.Contains(r.cidr, ":") {
		a["ethertype"] = "IPv6"
	}
	return a
}

// deleteGroupRule is DELETE /v2.1/os-security-group-rules/{rule}.
func (p proxies) deleteGroupRule(c *request.Call) error {
	id := c.R.PathValue("rule")
	if !request.IsUUID(id) {
		return fault.New(fault.Invalid, "Security group rule id should be a UUID; it is %q", edge.Clip(id))
	}
	all, err := p.projectGroups(c, url.Values{}, c.Who.IsAdmin())
	if err != nil {
		return err
	}
	for _, g := range all {
		if slices.ContainsFunc(g.Rules, func(r network.SecurityGroupRule) bool { return r.ID == id }) {
			return c.Done(http.StatusAccepted, p.networks.DeleteSecurityGroupRule(c.R.Context(), id))
		}
	}
	return fault.New(fault.NotFound, "Security group rule %s not found.", id)
}

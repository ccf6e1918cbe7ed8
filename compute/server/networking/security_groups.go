package networking

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
)

// This file has the security groups of servers. A network service that has groups has them by port; compute only names
// them. Without such a service there is one group, defaultGroup, which has no rules.

// defaultGroup is the group that every project has.
const defaultGroup = "default"

// noGroups is why only the default group exists.
const noGroups = "the network service has no security groups"

// securityGroupRoutes returns the paths of the security groups of a server.
func securityGroupRoutes(s *Handlers) request.Routes {
	return request.Routes{
		"/v2.1/servers/{id}/os-security-groups": {
			http.MethodGet: s.OfServer(policies.ListSecurityGroups,
				func(c *request.Call, found lifecycle.Server) error {
					return listSecurityGroups(c, s.Groups().Of(c.R.Context(), found)[found.ID])
				}),
		},
	}
}

// maxRequested is how many networks, and how many security groups, a request may have. Nova has no limit.
const maxRequested = 250

// ReadSecurityGroups reads security_groups: the names or ids of groups, each once.
func ReadSecurityGroups(o *edge.Object) (names []string) {
	var groups []struct{ Name string }
	o.Decode("security_groups", &groups, "a list of objects with the key name")
	if len(groups) > maxRequested {
		o.Invalid("security_groups", "it has %d elements, more than %d", len(groups), maxRequested)
		return nil
	}
	for _, g := range groups {
		switch n := len([]rune(g.Name)); {
		case n == 0 || n > 255:
			o.Invalid("security_groups", "name has %d characters; from 1 to 255 are allowed", n)
		case !slices.Contains(names, g.Name):
			names = append(names, g.Name)
		}
	}
	return names
}

// GroupFinder finds the security groups of the network service.
type GroupFinder struct {
	networks Networks // nil: there are none
	support  *groupSupport
	log      *slog.Logger
}

// groupSupport is what was last known of the extensions of the network service.
type groupSupport struct {
	mu             sync.Mutex
	checked        time.Time // zero: never
	groups, shared bool
	failed         time.Time // when it last did not answer for a list; zero: never
}

const (
	// supportTime is how long the extensions of the network service are not read again.
	supportTime = time.Minute
	// groupWait is how long answers about servers wait for their groups.
	groupWait = 5 * time.Second
	// groupRetry is how long they are answered without groups of ports after the network service did not answer.
	groupRetry = 10 * time.Second
)

// known returns what was last known of the extensions, if that is not too old.
func (k *groupSupport) known() (groups, shared, known bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.groups, k.shared, !k.checked.IsZero() && time.Since(k.checked) <= supportTime
}

// read records the extensions of the network service.
func (k *groupSupport) read(aliases []string) (groups, shared bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.checked = time.Now()
	k.groups = slices.Contains(aliases, network.SecurityGroupExtension)
	k.shared = slices.Contains(aliases, network.SharedSecurityGroupExtension)
	return k.groups, k.shared
}

// fail records that the network service did not answer for a list.
func (k *groupSupport) fail() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.failed = time.Now()
}

// failing reports whether the network service has just not answered.
func (k *groupSupport) failing() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.failed.IsZero() && time.Since(k.failed) <= groupRetry
}

// has reports whether the network service has security groups, and whether it finds those that others share.
func (f GroupFinder) has(ctx context.Context) (groups, shared bool, err error) {
	if f.networks == nil {
		return false, false, nil
	}
	if groups, shared, known := f.support.known(); known {
		return groups, shared, nil
	}
	aliases, err := f.networks.Extensions(ctx)
	if err != nil {
		return false, false, err
	}
	groups, shared = f.support.read(aliases)
	return groups, shared, nil
}

// Find returns the groups with these names or ids that a project has, or that others share with it. It returns
// fault.NotFound for one that does not exist or that the project does not see, and fault.Conflict for a name that
// several have.
func (f GroupFinder) Find(ctx context.Context, project string, names []string) ([]lifecycle.SecurityGroup, error) {
	if len(names) == 0 {
		return nil, nil
	}
	if len(names) == 1 && names[0] == defaultGroup { // the network service adds it to every port
		return []lifecycle.SecurityGroup{{Name: defaultGroup}}, nil
	}
	has, shared, err := f.has(ctx)
	if err != nil {
		return nil, err
	}
	var all []network.SecurityGroup
	if has {
		all, err = f.networks.SecurityGroups(ctx, url.Values{"tenant_id": {project}, "fields": {"id", "name"}})
		if err != nil {
			return nil, err
		}
	}
	var found []lifecycle.SecurityGroup
	for i := 0; i < len(names); i++ {
		one, err := groupOf(project, names[i], all, has)
		if fault.Is(err, fault.NotFound) && shared {
			more, err := f.sharedWith(ctx, project)
			if err != nil {
				return nil, err
			}
			all, shared = append(all, more...), false
			i--
			continue
		}
		if err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	return found, nil
}

// one returns the group with this name or id that a project has, or that others share with it.
func (f GroupFinder) one(ctx context.Context, project, name string, shared bool) (group lifecycle.SecurityGroup,
	err error) {
	all, err := f.networks.SecurityGroups(ctx, url.Values{"tenant_id": {project}, "fields": {"id", "name"}})
	if err != nil {
		return group, err
	}
	group, err = groupOf(project, name, all, true)
	if !shared || !fault.Is(err, fault.NotFound) {
		return group, err
	}
	if all, err = f.sharedWith(ctx, project); err != nil {
		return group, err
	}
	return groupOf(project, name, all, true)
}

// sharedWith returns the groups that others share with a project.
func (f GroupFinder) sharedWith(ctx context.Context, project string) (all []network.SecurityGroup, err error) {
	ids, err := f.networks.SharedWith(ctx, network.SharedSecurityGroup, project)
	if err != nil {
		return nil, err
	}
	for some := range slices.Chunk(ids, maxDevices) {
		more, err := f.networks.SecurityGroups(ctx, url.Values{"id": some, "fields": {"id", "name"}})
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	return all, nil
}

// groupOf returns the group with a name or an id. has is false if the network service has no groups.
func groupOf(project, name string, all []network.SecurityGroup, has bool) (one lifecycle.SecurityGroup, err error) {
	if !has && name == defaultGroup {
		return lifecycle.SecurityGroup{Name: defaultGroup}, nil
	}
	for _, g := range all {
		switch {
		case g.ID == name:
			return lifecycle.SecurityGroup{ID: g.ID, Name: g.Name}, nil
		case g.Name != name || g.ID == one.ID:
		case one.ID != "":
			return one, fault.New(fault.Conflict, "Multiple security groups found matching '%s'. Use an ID to be more "+
				"specific.", edge.Clip(name))
		default:
			one = lifecycle.SecurityGroup{ID: g.ID, Name: g.Name}
		}
	}
	switch {
	case one.ID != "":
		return one, nil
	case has:
		return one, fault.New(fault.NotFound, "Security group %s not found.", edge.Clip(name))
	}
	return one, fault.New(fault.NotFound, "Security group %s is not found for project %s: %s", edge.Clip(name), project,
		noGroups)
}

// Of returns the groups of each server, by its id: those of its ports in the network service. Without such ports,
// and if the network service has no groups or does not answer, they are those that were requested.
func (f GroupFinder) Of(ctx context.Context, servers ...lifecycle.Server) map[string][]network.SecurityGroup {
	all := map[string][]network.SecurityGroup{}
	for _, one := range servers {
		for _, g := range one.SecurityGroups {
			all[one.ID] = append(all[one.ID], network.SecurityGroup{ID: g.ID, Name: g.Name, Project: one.Project})
		}
		if len(all[one.ID]) == 0 && len(one.Ports) > 0 {
			all[one.ID] = []network.SecurityGroup{{Name: defaultGroup, Project: one.Project}}
		}
	}
	if f.support.failing() {
		return all
	}
	ctx, cancel := context.WithTimeout(ctx, groupWait)
	defer cancel()
	has, _, err := f.has(ctx)
	for some := range slices.Chunk(servers, maxDevices) {
		if err == nil && has {
			err = f.addGroupsOfPorts(ctx, some, all)
		}
	}
	if err != nil {
		f.support.fail()
		f.log.Warn("security groups not read; showing those requested", "error", err)
	}
	return all
}

// maxDevices is how many devices one request to the network service names, so that its address is not too long.
const maxDevices = 100

// addGroupsOfPorts replaces the groups of servers by those of their ports.
func (f GroupFinder) addGroupsOfPorts(ctx context.Context, servers []lifecycle.Server,
	all map[string][]network.SecurityGroup) error {
	q := url.Values{"fields": {"id", "device_id", "security_groups"}}
	for _, one := range servers {
		if len(one.Ports) > 0 {
			q.Add("device_id", one.ID)
		}
	}
	if len(q["device_id"]) == 0 {
		return nil
	}
	ports, err := f.networks.Ports(ctx, q)
	if err != nil {
		return err
	}
	ids := map[string][]string{} // by server
	var wanted []string
	for _, p := range ports {
		for _, id := range p.SecurityGroups {
			if !slices.Contains(ids[p.Device], id) {
				ids[p.Device] = append(ids[p.Device], id)
			}
			wanted = append(wanted, id)
		}
	}
	groups := map[string]network.SecurityGroup{}
	slices.Sort(wanted)
	for some := range slices.Chunk(slices.Compact(wanted), maxDevices) {
		found, err := f.networks.SecurityGroups(ctx, url.Values{"id": some})
		if err != nil {
			return err
		}
		for _, g := range found {
			groups[g.ID] = g
		}
	}
	for _, device := range q["device_id"] {
		delete(all, device)
		for _, id := range ids[device] {
			if g, known := groups[id]; known {
				all[device] = append(all[device], g)
			}
		}
	}
	return nil
}

// Groups returns what finds the security groups of servers.
func (s *Handlers) Groups() GroupFinder { return GroupFinder{s.Networks, &s.support, s.Log} }

// GroupNames returns the view of the groups of a server: each name once.
func GroupNames(groups []network.SecurityGroup) []compute.GroupName {
	var names []compute.GroupName
	for _, g := range groups {
		name := compute.GroupName{Name: g.Name}
		if name.Name == "" {
			name.Name = g.ID
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// RequestedGroups returns the groups in the answer to a creation: those of the request, or the default group.
func RequestedGroups(names []string) []compute.GroupName {
	if len(names) == 0 {
		return []compute.GroupName{{Name: defaultGroup}}
	}
	groups := make([]compute.GroupName, len(names))
	for i, name := range names {
		groups[i].Name = name
	}
	return groups
}

// listSecurityGroups is GET /v2.1/servers/{id}/os-security-groups: the groups of the ports of a server, sorted by name.
func listSecurityGroups(c *request.Call, groups []network.SecurityGroup) error {
	slices.SortStableFunc(groups, func(a, b network.SecurityGroup) int { return strings.Compare(a.Name, b.Name) })
	views := make([]compute.SecurityGroup, 0, len(groups))
	for _, g := range groups {
		views = append(views, groupView(g, groups))
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"security_groups": views})
}

// groupView returns the view of a group with its rules for incoming traffic. groups are those whose names are known.
func groupView(g network.SecurityGroup, groups []network.SecurityGroup) compute.SecurityGroup {
	v := compute.SecurityGroup{ID: g.ID, Name: g.Name, Description: g.Description, Project: g.Project,
		Rules: []compute.SecurityGroupRule{}}
	if v.ID == "" {
		v.ID = g.Name
	}
	for _, r := range g.Rules {
		if r.Direction == "ingress" {
			v.Rules = append(v.Rules, groupRule(r, groups))
		}
	}
	return v
}

// groupRule returns the view of a rule. A remote group is shown by its name if the server has it, else by its id.
func groupRule(r network.SecurityGroupRule, groups []network.SecurityGroup) compute.SecurityGroupRule {
	v := compute.SecurityGroupRule{ID: r.ID, Parent: r.Group, Protocol: request.OrNull(r.Protocol), From: r.MinPort,
		To: r.MaxPort, Group: map[string]string{}, Range: map[string]string{}}
	if r.MinPort == nil && r.MaxPort == nil && r.Protocol != "" {
		first, last := -1, -1
		if slices.Contains([]string{"tcp", "udp"}, strings.ToLower(r.Protocol)) {
			first, last = 1, 65535
		}
		v.From, v.To = &first, &last
	}
	if r.RemoteGroup == "" {
		v.Range["cidr"] = r.RemoteCIDR
		if r.RemoteCIDR == "" {
			v.Range["cidr"] = "0.0.0.0/0"
		}
		return v
	}
	v.Group["name"] = r.RemoteGroup
	if at := slices.IndexFunc(groups, func(g network.SecurityGroup) bool { return g.ID == r.RemoteGroup }); at >= 0 {
		v.Group["name"], v.Group["tenant_id"] = groups[at].Name, groups[at].Project
	}
	return v
}

// ChangeGroup returns the handler of addSecurityGroup or removeSecurityGroup, which change the groups of all ports of a
// server.
func ChangeGroup(key string) func(s *Handlers, c *request.Call, raw json.RawMessage, found lifecycle.Server) error {
	return func(s *Handlers, c *request.Call, raw json.RawMessage, found lifecycle.Server) error {
		o := c.NewObject(key, map[string]json.RawMessage{})
		if err := json.Unmarshal(raw, &o.Keys); err != nil || o.Keys == nil {
			return fault.New(fault.Invalid, "Invalid input for %s: it must be an object with the key name", key)
		}
		name := ""
		o.Require("name")
		if o.Text("name", &name, 255); o.Err() == nil && strings.TrimSpace(name) == "" {
			o.Invalid("name", "Security group name cannot be empty")
		}
		if err := o.Finish(); err != nil {
			return err
		}
		if err := s.Groups().change(c.R.Context(), found, name, key == "addSecurityGroup"); err != nil {
			return err
		}
		return c.WriteStatus(http.StatusAccepted)
	}
}

// change adds a group to the ports of a server, or removes it from them.
func (f GroupFinder) change(ctx context.Context, found lifecycle.Server, name string, add bool) error {
	has, shared, err := f.has(ctx)
	switch {
	case err != nil:
		return err
	case !has && name != defaultGroup:
		_, err := groupOf(found.Project, name, nil, false)
		return err
	case !has && add:
		return nil // it has it
	case !has:
		return fault.New(fault.Invalid, "Security group %s cannot be removed from instance %s: %s", name, found.ID,
			noGroups)
	}
	group, err := f.one(ctx, found.Project, name, shared)
	if err != nil {
		return err
	}
	ports, err := f.networks.Ports(ctx, url.Values{"device_id": {found.ID}})
	if err != nil {
		return err
	}
	if add && len(ports) == 0 {
		return fault.New(fault.NotFound, "instance_id %s could not be found as device id on any ports", found.ID)
	}
	changed := false
	for _, p := range ports {
		if slices.Contains(p.SecurityGroups, group.ID) == add {
			continue
		}
		if add && len(p.FixedIPs) == 0 {
			return fault.New(fault.Invalid,
				"Network requires port_security_enabled and subnet associated in order to apply "+
					"security groups; port %s has no address", p.ID)
		}
		now := slices.DeleteFunc(slices.Clone(p.SecurityGroups), func(id string) bool { return id == group.ID })
		if add {
			now = append(now, group.ID)
		}
		if _, err := f.networks.UpdatePort(ctx, p.ID, map[string]any{"security_groups": now}); err != nil {
			return err
		}
		changed = true
	}
	if !add && !changed {
		return fault.New(fault.NotFound, "Security group %s not associated with the instance %s", edge.Clip(name),
			found.ID)
	}
	return nil
}

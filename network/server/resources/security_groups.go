package resources

import (
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/network/operations"
	"github.com/openberth/berth/network/server/request"
	"github.com/openberth/berth/network/store"
	"github.com/openberth/berth/securitygroup"
)

// groups has the handlers of security groups and their rules.
type groups struct{ handlers }

func (s groups) operations() operations.SecurityGroups {
	return operations.SecurityGroups{Service: s.Ops}
}

// collection returns the collection of security groups.
func (s groups) collection() request.Collection {
	return request.Collection{One: "security_group", Many: "security_groups", Missing: "SecurityGroupNotFound",
		Attributes: request.With("stateful", "shared"),
		List:       s.list, Show: s.show, Draft: request.DraftProject,
		Create: func(c *request.Call, o *edge.Object) (request.Document, error) {
			g := store.SecurityGroup{}
			g.Project, _ = c.Project(o)
			readSecurityGroup(o, &g)
			if err := o.Finish(); err != nil {
				return request.Document{}, err
			}
			g, err := s.operations().Create(c.R.Context(), g)
			if err != nil {
				return request.Document{}, err
			}
			return s.show(c, g.ID)
		},
		Update: func(c *request.Call, id string, revision int, o *edge.Object) (request.Document, error) {
			_, err := s.operations().Update(c.R.Context(), id, revision, func(g *store.SecurityGroup) error {
				o := o.Copy()
				readSecurityGroup(o, g)
				return o.Finish()
			})
			if err != nil {
				return request.Document{}, err
			}
			return s.show(c, id)
		},
		Remove: func(c *request.Call, id string, revision int) error {
			return s.operations().Delete(c.R.Context(), id, revision)
		}}
}

// CheckVisible refuses groups of a port that the caller may not see.
func (s groups) checkVisible(c *request.Call, o *edge.Object) error {
	var ids []string
	if raw := o.Keys["security_groups"]; raw == nil || json.Unmarshal(raw, &ids) != nil {
		return nil
	}
	if err := c.NeedShares(); err != nil {
		return err
	}
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		if _, err := s.collection().Named().Read(c, id); err != nil {
			return err
		}
	}
	return nil
}

func readSecurityGroup(o *edge.Object, g *store.SecurityGroup) {
	o.Text("name", &g.Name, 255)
	o.Text("description", &g.Description, 255)
	stateful := !g.Stateless
	o.Flag("stateful", &stateful)
	g.Stateless = !stateful
}

// ensureDefaults creates the default groups of the projects that a list of groups is about: that of the caller,
// and one that the query names and whose groups the caller may see.
func (s groups) ensureDefaults(c *request.Call, q url.Values) error {
	for _, project := range append(slices.Concat(q["project_id"], q["tenant_id"]), c.Who.Project) {
		if len(project) > 255 || !c.Permits("get_security_group", c.Target(project, nil)) {
			continue
		}
		if err := s.operations().EnsureDefault(c.R.Context(), project); err != nil {
			return err
		}
	}
	return nil
}

func (s groups) list(c *request.Call, q url.Values) (list []request.Document, err error) {
	if err := s.ensureDefaults(c, q); err != nil {
		return nil, err
	}
	ctx := c.R.Context()
	err = s.Ops.Store.Read(ctx, func(tx *store.Tx) error {
		found, err := store.List[store.SecurityGroup](ctx, tx, request.StoreFilter(q))
		if err != nil {
			return err
		}
		ids := []string{}
		for _, g := range found {
			ids = append(ids, g.ID)
		}
		rules, err := rulesByGroup(ctx, tx, ids)
		list = nil
		for _, g := range found {
			list = append(list, groupDocument(c, g, rules[g.ID]))
		}
		return err
	})
	return list, err
}

// rulesByGroup returns the rules of groups, the oldest first.
func rulesByGroup(ctx context.Context, tx *store.Tx, groups []string) (map[string][]store.SecurityGroupRule, error) {
	all := map[string][]store.SecurityGroupRule{}
	if len(groups) == 0 {
		return all, nil
	}
	rules, err := store.List[store.SecurityGroupRule](ctx, tx, store.Filter{Policies: groups})
	for _, r := range rules {
		all[r.Group] = append(all[r.Group], r)
	}
	for _, list := range all {
		slices.SortStableFunc(list, func(a, b store.SecurityGroupRule) int { return int(a.Created - b.Created) })
	}
	return all, err
}

func (s groups) show(c *request.Call, id string) (d request.Document, err error) {
	ctx := c.R.Context()
	err = s.Ops.Store.Read(ctx, func(tx *store.Tx) error {
		g, err := operations.GetIn[store.SecurityGroup](ctx, tx, id)
		if err != nil {
			return err
		}
		rules, err := rulesByGroup(ctx, tx, []string{id})
		d = groupDocument(c, g, rules[id])
		return err
	})
	return d, err
}

// groupDocument returns the document of a group.
func groupDocument(c *request.Call, g store.SecurityGroup, rules []store.SecurityGroupRule) request.Document {
	view := request.Common(g.Base)
	views := []map[string]any{}
	for _, r := range rules {
		views = append(views, ruleOfGroup(r))
	}
	maps.Copy(view, map[string]any{"stateful": !g.Stateless, "shared": c.IsShared(g.ID), "security_group_rules": views})
	return request.Document{View: view, Target: c.Target(g.Project, map[string]any{"shared": c.IsShared(g.ID)})}
}

// rules returns the collection of the rules of security groups.
func (s groups) rules() request.Collection {
	return request.Collection{One: "security_group_rule", Many: "security_group_rules",
		Missing: "SecurityGroupRuleNotFound",
		Attributes: slices.DeleteFunc(request.With("security_group_id", "direction", "ethertype", "protocol",
			"port_range_min",
			"port_range_max", "remote_group_id", "remote_address_group_id", "remote_ip_prefix", "normalized_cidr"),
			func(name string) bool { return name == "name" }),
		List: func(c *request.Call, q url.Values) ([]request.Document, error) {
			if err := s.ensureDefaults(c, q); err != nil {
				return nil, err
			}
			f := request.StoreFilter(q)
			f.Policies, f.Devices = q["security_group_id"], q["remote_group_id"]
			found, err := operations.List[store.SecurityGroupRule](c.R.Context(), s.Ops, f)
			var list []request.Document
			for _, r := range found {
				list = append(list, ruleDocument(c, r))
			}
			return list, err
		},
		Show: func(c *request.Call, id string) (request.Document, error) {
			r, err := operations.Get[store.SecurityGroupRule](c.R.Context(), s.Ops, id)
			return ruleDocument(c, r), err
		},
		Draft: s.draftRule, Create: s.createRule,
		Remove: func(c *request.Call, id string, revision int) error {
			return s.operations().DeleteRule(c.R.Context(), id, revision)
		}}
}

// draftRule returns the target of a new rule: the project of its group, which the caller must see, as the remote group.
func (s groups) draftRule(c *request.Call, o *edge.Object) (map[string]any, error) {
	o = o.Copy()
	var group, remote string
	o.Text("security_group_id", &group, 255)
	o.Text("remote_group_id", &remote, 255)
	if group == "" {
		o.Invalid("security_group_id", "the group of the rule is missing")
	}
	if err := o.Err(); err != nil {
		return nil, err
	}
	d, err := s.collection().Named().Read(c, group)
	if err == nil && remote != "" {
		_, err = s.collection().Named().Read(c, remote)
	}
	return d.Target, err
}

func (s groups) createRule(c *request.Call, o *edge.Object) (request.Document, error) {
	r := store.SecurityGroupRule{}
	if _, err := c.Project(o); err != nil { // the rule belongs to the project of its group
		return request.Document{}, err
	}
	o.Text("description", &r.Description, 255)
	o.Text("security_group_id", &r.Group, 255)
	o.Text("remote_group_id", &r.RemoteGroup, 255)
	o.Text("remote_ip_prefix", &r.RemotePrefix, 255)
	o.Text("ethertype", &r.EtherType, 255)
	o.Word("direction", &r.Direction, securitygroup.Ingress, securitygroup.Egress)
	if r.Direction == "" {
		o.Invalid("direction", "'' is not in ['%s', '%s']", securitygroup.Ingress, securitygroup.Egress)
	}
	if !edge.IsNull(o.Keys["protocol"]) {
		o.Scalar("protocol", &r.Protocol, "the name or the number of a protocol")
	}
	r.Min, r.Max = optionalNumber(o, "port_range_min"), optionalNumber(o, "port_range_max")
	o.Ignore("protocol", "remote_address_group_id", "tags")
	if err := o.Finish(); err != nil {
		return request.Document{}, err
	}
	r, err := s.operations().CreateRule(c.R.Context(), r)
	return ruleDocument(c, r), err
}

// optionalNumber decodes a number; nil for null or a missing key.
func optionalNumber(o *edge.Object, key string) *int {
	if text := strings.TrimSpace(string(o.Keys[key])); text == "null" || text == "" || text == `""` {
		delete(o.Keys, key)
		return nil
	}
	n := 0
	o.Number(key, &n, -1<<31, request.MaxRate)
	return &n
}

// ruleOfGroup returns a rule as the API shows it.
func ruleOfGroup(r store.SecurityGroupRule) map[string]any {
	view := request.Common(r.Base)
	delete(view, "name")
	delete(view, "tags")
	maps.Copy(view, map[string]any{"security_group_id": r.Group, "direction": r.Direction, "ethertype": r.EtherType,
		"protocol": edge.OrNull(r.Protocol), "port_range_min": numberOrNull(r.Min),
		"port_range_max":  numberOrNull(r.Max),
		"remote_group_id": edge.OrNull(r.RemoteGroup), "remote_address_group_id": nil,
		"remote_ip_prefix": edge.OrNull(r.RemotePrefix), "normalized_cidr": edge.OrNull(r.RemotePrefix)})
	return view
}

func numberOrNull(n *int) any {
	if n == nil {
		return nil
	}
	return *n
}

// ruleDocument returns the document of a rule.
func ruleDocument(c *request.Call, r store.SecurityGroupRule) request.Document {
	return request.Document{View: ruleOfGroup(r), Target: c.Target(r.Project, nil)}
}

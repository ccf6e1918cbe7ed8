package operations

import (
	"context"
	"slices"
	"strings"

	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/network/binding"
	"github.com/openberth/berth/network/store"
	"github.com/openberth/berth/securitygroup"
)

// SecurityGroups has the operations of security groups and their rules.
type SecurityGroups struct{ *Service }

// DefaultGroup is the name of the security group that each project has.
const DefaultGroup = "default"

// Create stores a new group with two rules, which permit everything from its ports. The default group of the project is
// created before.
func (s SecurityGroups) Create(ctx context.Context, g store.SecurityGroup) (store.SecurityGroup, error) {
	wanted := g
	err := s.Store.Write(ctx, func(tx *store.Tx) error {
		g = wanted
		if _, err := s.ensureDefault(ctx, tx, g.Project); err != nil {
			return err
		}
		if g.Name == DefaultGroup && g.Project != "" {
			return conflict("SecurityGroupDefaultAlreadyExists", "Default security group already exists: each project has "+
				"one; use another name")
		}
		if err := s.checkQuota(ctx, tx, "security_group", g.Project); err != nil {
			return err
		}
		return s.put(ctx, tx, &g)
	})
	return g, err
}

// put stores a new group with its first rules.
func (s SecurityGroups) put(ctx context.Context, tx *store.Tx, g *store.SecurityGroup) error {
	s.begin(&g.Base)
	g.Number = firstRevision
	if err := store.Put(ctx, tx, g); err != nil {
		return err
	}
	for _, ethertype := range []string{securitygroup.IPv4, securitygroup.IPv6} {
		rules := []store.SecurityGroupRule{{Direction: securitygroup.Egress}}
		if g.Default {
			rules = append(rules, store.SecurityGroupRule{Direction: securitygroup.Ingress, RemoteGroup: g.ID})
		}
		for _, r := range rules {
			r.Project, r.Group, r.EtherType = g.Project, g.ID, ethertype
			s.begin(&r.Base)
			if err := store.Put(ctx, tx, &r); err != nil {
				return err
			}
		}
	}
	return nil
}

// EnsureDefault creates the default group of a project if it does not exist. A project without a name has none.
func (s SecurityGroups) EnsureDefault(ctx context.Context, project string) error {
	if project == "" {
		return nil
	}
	var found bool
	err := s.Store.Read(ctx, func(tx *store.Tx) (err error) {
		_, found, err = defaultGroup(ctx, tx, project)
		return err
	})
	if err != nil || found {
		return err
	}
	return s.Store.Write(ctx, func(tx *store.Tx) error {
		_, err := s.ensureDefault(ctx, tx, project)
		return err
	})
}

// ensureDefault returns the id of the default group of a project, which it creates if it does not exist.
func (s SecurityGroups) ensureDefault(ctx context.Context, tx *store.Tx, project string) (string, error) {
	if project == "" {
		return "", nil
	}
	g, found, err := defaultGroup(ctx, tx, project)
	if err != nil || found {
		return g.ID, err
	}
	g = store.SecurityGroup{Base: store.Base{Project: project, Name: DefaultGroup, Description: "Default security group"},
		Default: true}
	err = s.put(ctx, tx, &g)
	return g.ID, err
}

func defaultGroup(ctx context.Context, tx *store.Tx, project string) (g store.SecurityGroup, found bool, err error) {
	list, err := store.List[store.SecurityGroup](ctx, tx, store.Filter{Projects: []string{project}})
	if at := slices.IndexFunc(list, func(g store.SecurityGroup) bool { return g.Default }); at >= 0 {
		return list[at], true, err
	}
	return g, false, err
}

// Update changes a group, apart from its rules.
func (s SecurityGroups) Update(ctx context.Context, id string, revision int,
	change func(*store.SecurityGroup) error) (g store.SecurityGroup, err error) {
	err = s.Store.Write(ctx, func(tx *store.Tx) error {
		if g, err = current[store.SecurityGroup](ctx, tx, id, revision); err != nil {
			return err
		}
		old := g
		if err := change(&g); err != nil {
			return err
		}
		if g.Name != old.Name && (old.Default || g.Name == DefaultGroup) {
			return conflict("SecurityGroupCannotUpdateDefault", "Updating default security group not allowed: the group %s of "+
				"a project keeps its name, and no other group has it", DefaultGroup)
		}
		if g.Stateless != old.Stateless {
			if err := s.checkUnused(ctx, tx, id); err != nil {
				return err
			}
		}
		s.edited(&g.Base)
		return store.Put(ctx, tx, &g)
	})
	return g, err
}

// checkUnused refuses a group that ports have.
func (s SecurityGroups) checkUnused(ctx context.Context, tx *store.Tx, id string) error {
	ports, err := tx.PortsOfGroup(ctx, id)
	if err == nil && len(ports) > 0 {
		err = conflict("SecurityGroupInUse", "Security Group %s in use: %d ports have it, such as %s; remove it from them",
			id, len(ports), ports[0])
	}
	return err
}

// Delete removes a group that no port has, with its rules and the rules of other groups that name it.
func (s SecurityGroups) Delete(ctx context.Context, id string, revision int) error {
	return s.Store.Write(ctx, func(tx *store.Tx) error {
		g, err := current[store.SecurityGroup](ctx, tx, id, revision)
		if err != nil {
			return err
		}
		if g.Default {
			return conflict("SecurityGroupCannotRemoveDefault", "Insufficient rights for removing default security group: "+
				"each project keeps it")
		}
		if err := s.checkUnused(ctx, tx, id); err != nil {
			return err
		}
		for _, f := range []store.Filter{{Policies: []string{id}}, {Devices: []string{id}}} {
			rules, err := store.List[store.SecurityGroupRule](ctx, tx, f)
			if err != nil {
				return err
			}
			for _, r := range rules {
				if err := s.removeRule(ctx, tx, r); err != nil {
					return err
				}
			}
		}
		if err := tx.ForgetGroup(ctx, id); err != nil {
			return err
		}
		if err := (Sharing{s.Service}).forget(ctx, tx, id); err != nil {
			return err
		}
		return store.Delete[store.SecurityGroup](ctx, tx, id)
	})
}

// CreateRule stores a new rule of a group. It belongs to the project of the group.
func (s SecurityGroups) CreateRule(ctx context.Context, r store.SecurityGroupRule) (store.SecurityGroupRule, error) {
	rule, err := RuleOf(r).Normalise()
	if err != nil {
		return r, err
	}
	r.EtherType, r.Protocol, r.RemotePrefix = rule.EtherType, rule.Protocol, rule.RemotePrefix
	wanted := r
	err = s.Store.Write(ctx, func(tx *store.Tx) error {
		r = wanted
		g, err := GetIn[store.SecurityGroup](ctx, tx, r.Group)
		if err != nil {
			return err
		}
		if r.RemoteGroup != "" {
			if _, err := GetIn[store.SecurityGroup](ctx, tx, r.RemoteGroup); err != nil {
				return err
			}
		}
		r.Project = g.Project
		if err := s.checkQuota(ctx, tx, "security_group_rule", r.Project); err != nil {
			return err
		}
		if err := checkNewRule(ctx, tx, r); err != nil {
			return err
		}
		s.begin(&r.Base)
		if err := store.Put(ctx, tx, &r); err != nil {
			return err
		}
		s.edited(&g.Base)
		return store.Put(ctx, tx, &g)
	})
	return r, err
}

// checkNewRule refuses a rule that its group has.
func checkNewRule(ctx context.Context, tx *store.Tx, r store.SecurityGroupRule) error {
	rules, err := store.List[store.SecurityGroupRule](ctx, tx, store.Filter{Policies: []string{r.Group}})
	if err != nil {
		return err
	}
	for _, other := range rules {
		if RuleOf(other).Same(RuleOf(r)) {
			return conflict("SecurityGroupRuleExists", "Security group rule already exists. Rule id is %s.", other.ID)
		}
	}
	return nil
}

// DeleteRule removes a rule.
func (s SecurityGroups) DeleteRule(ctx context.Context, id string, revision int) error {
	return s.Store.Write(ctx, func(tx *store.Tx) error {
		r, err := current[store.SecurityGroupRule](ctx, tx, id, revision)
		if err != nil {
			return err
		}
		return s.removeRule(ctx, tx, r)
	})
}

// removeRule removes a rule and counts a change of its group.
func (s SecurityGroups) removeRule(ctx context.Context, tx *store.Tx, r store.SecurityGroupRule) error {
	if err := store.Delete[store.SecurityGroupRule](ctx, tx, r.ID); err != nil {
		return err
	}
	g, err := GetIn[store.SecurityGroup](ctx, tx, r.Group)
	if err != nil {
		return err
	}
	s.edited(&g.Base)
	return store.Put(ctx, tx, &g)
}

// RuleOf returns a rule for decisions.
func RuleOf(r store.SecurityGroupRule) securitygroup.Rule {
	return securitygroup.Rule{ID: r.ID, Direction: r.Direction, EtherType: r.EtherType, Protocol: r.Protocol, Min: r.Min,
		Max: r.Max, RemoteGroup: r.RemoteGroup, RemotePrefix: r.RemotePrefix}
}

// isTrusted reports whether a port belongs to the network itself, as a DHCP server does: it has no port security.
func isTrusted(p store.Port) bool { return strings.HasPrefix(p.Owner, "network:") }

// selectGroups sets the groups of a new port: those of the request, or the default group of its project if the request
// has none and the port has port security. nil: none were requested.
func (s SecurityGroups) selectGroups(ctx context.Context, tx *store.Tx, p *store.Port) error {
	if isTrusted(*p) {
		p.PortSecurity = false
	}
	if p.Groups == nil && p.PortSecurity {
		id, err := s.ensureDefault(ctx, tx, p.Project)
		if id != "" {
			p.Groups = []string{id}
		}
		return err
	}
	return checkGroups(ctx, tx, p, true)
}

// checkGroups checks the groups of a port and sorts them. given reports whether the request has groups.
func checkGroups(ctx context.Context, tx *store.Tx, p *store.Port, given bool) error {
	p.Groups = slices.Clone(p.Groups)
	slices.Sort(p.Groups)
	p.Groups = slices.Compact(p.Groups)
	switch {
	case len(p.Groups) == 0 || p.PortSecurity && !given:
		return nil
	case !p.PortSecurity && given:
		return invalid("Port security must be enabled in order to use security groups.").
			WithCode("PortSecurityAndIPRequiredForSecurityGroups")
	case !p.PortSecurity:
		return conflict("PortSecurityPortHasSecurityGroup", "Port has security group associated. Cannot disable port "+
			"security until the security groups are removed; send security_groups: [] too")
	}
	stateless := map[bool]bool{}
	for _, id := range p.Groups {
		g, err := GetIn[store.SecurityGroup](ctx, tx, id)
		if err != nil {
			return err
		}
		if stateless[g.Stateless] = true; len(stateless) > 1 {
			return conflict("SecurityGroupConflict", "Cannot apply both stateful and stateless security groups on the same "+
				"port; %s is the first that differs", id)
		}
	}
	return nil
}

// hasOwnGroups reports whether a port has a security group beside the default group of its project, so that it must be
// filtered: only such ports are refused where nothing filters.
func hasOwnGroups(ctx context.Context, tx *store.Tx, p store.Port) (bool, error) {
	if len(p.Groups) == 0 {
		return false, nil
	}
	g, found, err := defaultGroup(ctx, tx, p.Project)
	return len(p.Groups) > 1 || !found || p.Groups[0] != g.ID, err
}

// checkFilter refuses a security group of a port where nothing filters: of a vnic type that only VFs have, or bound by
// an agent that does not filter; agent is empty if it is not bound. The default group of a project
// is not enforced there.
func checkFilter(ctx context.Context, tx *store.Tx, p store.Port, agent string) error {
	reason := binding.NoFilter(p.Binding.VNIC, bandwidth.AgentType(agent))
	if reason == "" {
		return nil
	}
	own, err := hasOwnGroups(ctx, tx, p)
	if err == nil && own {
		err = conflict("SecurityGroupNotEnforced", "Port %s cannot have these security groups: %s", p.ID, reason)
	}
	return err
}

// checkChangedFilter is checkFilter for a port whose groups or vnic type a request changes.
func checkChangedFilter(ctx context.Context, tx *store.Tx, old, p store.Port) error {
	agent := p.Binding.Agent
	if p.Binding.Host != old.Binding.Host {
		agent = ""
	}
	if slices.Equal(p.Groups, old.Groups) && p.Binding.VNIC == old.Binding.VNIC {
		return nil
	}
	return checkFilter(ctx, tx, p, agent)
}

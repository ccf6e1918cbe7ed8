package operations

import (
	"context"
	"slices"

	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/binding"
	"github.com/openberth/berth/network/qos"
	"github.com/openberth/berth/network/store"
)

// Policies has the operations of QoS policies and their rules.
type Policies struct{ *Service }

// CreatePolicy stores a new policy.
func (s Policies) CreatePolicy(ctx context.Context, p store.Policy) (store.Policy, error) {
	wanted := p
	err := s.Store.Write(ctx, func(tx *store.Tx) error {
		p = wanted
		s.begin(&p.Base)
		if err := s.checkQuota(ctx, tx, "qos_policy", p.Project); err != nil {
			return err
		}
		if err := checkDefault(ctx, tx, p); err != nil {
			return err
		}
		if err := (Sharing{s.Service}).share(ctx, tx, SharedPolicy, p.Base, false, p.Shared); err != nil {
			return err
		}
		return store.Put(ctx, tx, &p)
	})
	return p, err
}

// checkDefault refuses a second default policy of a project.
func checkDefault(ctx context.Context, tx *store.Tx, p store.Policy) error {
	if !p.IsDefault {
		return nil
	}
	other, err := defaultPolicy(ctx, tx, p.Project)
	if err == nil && other != "" && other != p.ID {
		err = conflict("QoSPolicyDefaultAlreadyExists", "A default QoS policy exists for project %s: %s.", p.Project, other)
	}
	return err
}

// defaultPolicy returns the default policy of a project; empty if it has none.
func defaultPolicy(ctx context.Context, tx *store.Tx, project string) (string, error) {
	if project == "" {
		return "", nil
	}
	list, err := store.List[store.Policy](ctx, tx, store.Filter{Projects: []string{project}})
	for _, p := range list {
		if p.IsDefault {
			return p.ID, nil
		}
	}
	return "", err
}

// UpdatePolicy changes a policy, apart from its rules.
func (s Policies) UpdatePolicy(ctx context.Context, id string, revision int,
	change func(*store.Policy) error) (p store.Policy, err error) {
	err = s.Store.Write(ctx, func(tx *store.Tx) error {
		if p, err = current[store.Policy](ctx, tx, id, revision); err != nil {
			return err
		}
		old := p
		if err := change(&p); err != nil {
			return err
		}
		if err := checkDefault(ctx, tx, p); err != nil {
			return err
		}
		if err := (Sharing{s.Service}).share(ctx, tx, SharedPolicy, p.Base, old.Shared, p.Shared); err != nil {
			return err
		}
		s.edited(&p.Base)
		return store.Put(ctx, tx, &p)
	})
	return p, err
}

// DeletePolicy removes a policy. The code of the conflict is QosPolicyInUse if a port or a network has it.
func (s Policies) DeletePolicy(ctx context.Context, id string, revision int) error {
	return s.Store.Write(ctx, func(tx *store.Tx) error {
		if _, err := current[store.Policy](ctx, tx, id, revision); err != nil {
			return err
		}
		f := store.Filter{Policies: []string{id}}
		ports, err := store.List[store.Port](ctx, tx, f)
		if err != nil {
			return err
		}
		networks, err := store.List[store.Network](ctx, tx, f)
		if err != nil {
			return err
		}
		if err := checkNotAwaited(ctx, tx, id); err != nil {
			return err
		}
		switch {
		case len(ports) > 0:
			return conflict("QosPolicyInUse", "QoS Policy %s is used by port %s.", id, ports[0].ID)
		case len(networks) > 0:
			return conflict("QosPolicyInUse", "QoS Policy %s is used by network %s.", id, networks[0].ID)
		}
		if err := (Sharing{s.Service}).forget(ctx, tx, id); err != nil {
			return err
		}
		return store.Delete[store.Policy](ctx, tx, id)
	})
}

// checkNotAwaited refuses a change of a policy that a port or a network gets when an unfinished change has ended.
func checkNotAwaited(ctx context.Context, tx *store.Tx, policy string) error {
	unfinished, err := store.List[store.Change](ctx, tx, store.Filter{})
	for _, c := range unfinished {
		if c.Network != nil && c.Network.Policy == policy ||
			slices.ContainsFunc(c.Ports, func(p store.Port) bool { return p.Policy == policy }) {
			return refusePending(c, "QoS policy "+policy)
		}
	}
	return err
}

// PolicyOfRule returns the policy that has a rule of a type, or fault.NotFound.
func (s Policies) PolicyOfRule(ctx context.Context, kind qos.Type, rule string) (store.Policy, error) {
	all, err := List[store.Policy](ctx, s.Service, store.Filter{})
	for _, p := range all {
		if slices.ContainsFunc(p.Rules, func(r store.Rule) bool { return r.ID == rule && r.Type == string(kind) }) {
			return p, err
		}
	}
	if err == nil {
		err = notFound("QosRule", rule)
	}
	return store.Policy{}, err
}

// Rule returns a rule of a policy, or fault.NotFound.
func Rule(p store.Policy, kind qos.Type, id string) (store.Rule, error) {
	for _, r := range p.Rules {
		if r.ID == id && r.Type == string(kind) {
			return r, nil
		}
	}
	return store.Rule{}, fault.New(fault.NotFound, "QoS rule %s for policy %s could not be found.", id, p.ID).
		WithCode("QosRuleNotFound")
}

// PutRule adds a rule to a policy, or replaces the one with the same ID. A rule without an ID is new.
func (s Policies) PutRule(ctx context.Context, policy string, rule store.Rule) (store.Rule, error) {
	err := s.changeRules(ctx, policy, qos.Type(rule.Type), func(p *store.Policy) error {
		if rule.ID != "" {
			if _, err := Rule(*p, qos.Type(rule.Type), rule.ID); err != nil {
				return err
			}
		}
		var others []qos.Limits
		for _, r := range p.Rules {
			others = append(others, ruleOf(r))
		}
		if code, reason := qos.Conflict(ruleOf(rule), others); code != "" {
			return conflict(code, "Policy %s: %s.", policy, reason)
		}
		if rule.ID == "" {
			rule.ID = store.NewUUID()
		}
		p.Rules = slices.DeleteFunc(slices.Clone(p.Rules), func(r store.Rule) bool { return r.ID == rule.ID })
		p.Rules = append(p.Rules, rule)
		return nil
	})
	return rule, err
}

// DeleteRule removes a rule from a policy.
func (s Policies) DeleteRule(ctx context.Context, policy string, kind qos.Type, id string) error {
	return s.changeRules(ctx, policy, kind, func(p *store.Policy) error {
		if _, err := Rule(*p, kind, id); err != nil {
			return err
		}
		p.Rules = slices.DeleteFunc(slices.Clone(p.Rules), func(r store.Rule) bool { return r.ID == id })
		return nil
	})
}

// changeRules changes the rules of a policy. Rules with a guarantee cannot change while a port of a server has the
// policy: that fault has the code QosRuleInUse, and the API answers with 501.
func (s Policies) changeRules(ctx context.Context, policy string, kind qos.Type,
	change func(*store.Policy) error) error {
	return s.Store.Write(ctx, func(tx *store.Tx) error {
		p, err := GetIn[store.Policy](ctx, tx, policy)
		if err != nil {
			return err
		}
		if err := change(&p); err != nil {
			return err
		}
		ports, err := portsOf(ctx, tx, policy)
		if err != nil {
			return err
		}
		if slices.Contains(qos.Guarantees(), kind) {
			if err := checkUnused(policy, ports); err != nil {
				return err
			}
			if err := checkNotAwaited(ctx, tx, policy); err != nil {
				return err
			}
		}
		for _, port := range ports {
			if err := checkRules(port, p); err != nil {
				return err
			}
		}
		s.edited(&p.Base)
		return store.Put(ctx, tx, &p)
	})
}

// portsOf returns the ports whose effective policy is this one.
func portsOf(ctx context.Context, tx *store.Tx, policy string) ([]store.Port, error) {
	ports, err := store.List[store.Port](ctx, tx, store.Filter{Policies: []string{policy}})
	if err != nil {
		return nil, err
	}
	networks, err := store.List[store.Network](ctx, tx, store.Filter{Policies: []string{policy}})
	if err != nil {
		return nil, err
	}
	for _, n := range networks {
		of, err := store.List[store.Port](ctx, tx, store.Filter{Networks: []string{n.ID}})
		if err != nil {
			return nil, err
		}
		for _, p := range of {
			if p.Policy == "" {
				ports = append(ports, p)
			}
		}
	}
	return ports, nil
}

// checkUnused refuses a change of a policy that is the effective one of a server's port.
func checkUnused(policy string, ports []store.Port) error {
	for _, p := range ports {
		if isServerPort(p) || p.Device != "" && p.Owner == "" { // compute reserves a port before it is bound
			return fault.New(fault.Conflict, "rules with a guarantee of policy %s cannot change: port %s of server %s has "+
				"the policy; create another policy and assign that one to the port", policy, p.ID, p.Device).WithCode(RuleInUse)
		}
	}
	return nil
}

// RuleInUse is the code of the fault for a rule that a server's port has.
const RuleInUse = "QosRuleInUse"

// PolicyRefused is the code of the fault for a change of policies that is not implemented.
const PolicyRefused = "QosPolicyChangeNotSupported"

// checkPortPolicy refuses a policy that does not exist, or whose rules no agent can apply to the port.
func checkPortPolicy(ctx context.Context, tx *store.Tx, p store.Port, n store.Network) error {
	policy := qos.Effective(p.Policy, n.Policy)
	if policy == "" {
		return nil
	}
	found, err := GetIn[store.Policy](ctx, tx, policy)
	if err != nil {
		return err
	}
	return checkRules(p, found)
}

// checkRules refuses rules that no agent can apply to a port.
func checkRules(p store.Port, policy store.Policy) error {
	for _, r := range policy.Rules {
		if !binding.SupportsRule(bandwidth.AgentType(p.Binding.Agent), p.Binding.VNIC, qos.Type(r.Type)) {
			return conflict("QosRuleNotSupported", "Rule %s is not supported by port %s: no agent applies a rule of this type "+
				"to a port with vnic type %s; use another policy", r.Type, p.ID, p.Binding.VNIC)
		}
	}
	return nil
}

// checkNetworkPolicy refuses a policy of a network that does not exist, or that has a rule which no agent can apply to
// one of the ports that get the policy from the network.
func checkNetworkPolicy(ctx context.Context, tx *store.Tx, n store.Network) error {
	if n.Policy == "" {
		return nil
	}
	policy, err := GetIn[store.Policy](ctx, tx, n.Policy)
	if err != nil {
		return err
	}
	ports, err := store.List[store.Port](ctx, tx, store.Filter{Networks: []string{n.ID}})
	if err != nil {
		return err
	}
	for _, p := range ports {
		if p.Policy != "" {
			continue
		}
		if err := checkRules(p, policy); err != nil {
			return conflict("QosRuleNotSupportedByNetwork", "Policy %s cannot be that of network %s: %s; or give the port a "+
				"policy of its own", policy.ID, n.ID, fault.TextOf(err))
		}
	}
	return nil
}

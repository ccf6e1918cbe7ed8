package sync

import (
	"fmt"
	"maps"
	"slices"

	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/agent/survey"
	"github.com/openberth/berth/agent/treeplan"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

// agents returns the agent types to report; none without report_bandwidth.
func (b *bandwidthSync) agents() []bandwidth.Agent {
	if !b.Config.ReportBandwidth {
		return nil
	}
	return b.Config.Bandwidth
}

// observation adds to an observation what the plan for bandwidth needs.
func (b *bandwidthSync) observation(e state.Observe) state.Observe {
	if !b.Config.ReportBandwidth {
		return e
	}
	names := map[string]bool{}
	for _, a := range b.agents() {
		for _, d := range a.Providers() {
			names[d.Name.Hypervisor] = true
		}
	}
	delete(names, b.Config.Host)
	e.Hypervisors, e.Owned = slices.Sorted(maps.Keys(names)), slices.Sorted(maps.Keys(b.State.Owned()))
	return e
}

// draft makes the plan without the usages of providers.
func (b *bandwidthSync) draft(v view, o state.Observation) {
	b.trees, b.plan, b.findings = provider.Tree{}, treeplan.Plan{}, nil
	b.notReached, b.unread = map[string]string{}, false
	if !b.Config.ReportBandwidth {
		return
	}
	root := v.identity.Provider
	roots := map[string]provider.ID{b.Config.Host: root}
	b.trees.Providers = slices.Clone(v.facts.Actual.Providers)
	if _, there := v.facts.Actual.ByID(root); !there { // the plan for devices creates it
		b.trees.Providers = append(b.trees.Providers, provider.Provider{ID: root, Name: b.Config.Host, Root: root})
	}
	for _, other := range o.Elsewhere {
		b.addTree(other, roots)
	}
	machine := survey.BandwidthFacts{Agents: b.agents(), Roots: roots, NICs: o.Machine.NICs,
		NICsRead: o.Machine.NICsRead, Devices: v.facts.Devices}
	b.aim = treeplan.Bandwidth{Providers: survey.Bandwidth(machine), Owns: b.ownership(root)}
	absent := map[string]bool{} // with an objection of the plan
	for _, d := range b.aim.Providers {
		absent[d.Name.Device] = absent[d.Name.Device] || d.Absent != ""
	}
	for _, f := range survey.InterfaceFindings(machine) {
		if !f.Wrong || !absent[f.Device] {
			b.findings = append(b.findings, f.Sentence)
		}
	}
	b.plan = treeplan.MakeBandwidth(b.aim, b.trees, nil, ownedOf(b.State))
}

// addTree adds a tree that was read, or the reason why it cannot be used.
func (b *bandwidthSync) addTree(other state.OtherTree, roots map[string]provider.ID) {
	root, there := other.Tree.Root()
	switch {
	case other.Err != nil:
		b.unread = true
		if other.Name != "" {
			b.notReached[other.Name] = "its tree cannot be read: " + fault.TextOf(other.Err)
		}
		return
	case other.Name == "":
	case !there:
		b.notReached[other.Name] = "Placement has no provider with this name; start the compute service of the hypervisor, " +
			"or correct resource_provider_hypervisors"
		return
	case root.Name != other.Name:
		b.notReached[other.Name] = fmt.Sprintf("its provider is not a root but below %s; correct "+
			"resource_provider_hypervisors", root.Name)
		return
	default:
		roots[other.Name] = root.ID
	}
	b.trees.Providers = append(b.trees.Providers, other.Tree.Providers...)
}

// ownership returns the rule for providers that are not configured any more: the agent owns those that its journal has,
// and below the host's own root all of the agent types that it reports.
func (b *bandwidthSync) ownership(root provider.ID) func(provider.Provider, bandwidth.Name) bool {
	owned, configured := b.State.Owned(), map[bandwidth.AgentType]bool{}
	for _, a := range b.agents() {
		configured[a.Type] = true
	}
	return func(p provider.Provider, n bandwidth.Name) bool {
		if _, unknown := b.notReached[n.Hypervisor]; unknown {
			return false
		}
		_, written := owned[p.ID]
		return written || p.Root == root && configured[n.Agent]
	}
}

// usedProviders lists the existing providers that the draft changes: the final plan needs their usages.
func (b *bandwidthSync) usedProviders() []provider.ID {
	used := map[provider.ID]bool{}
	for _, step := range b.plan.Steps {
		if _, there := b.trees.ByID(step.Provider); there {
			used[step.Provider] = true
		}
	}
	return slices.Sorted(maps.Keys(used))
}

// finish makes the final plan with the usages of providers. A plan with an objection of the check is discarded whole.
func (b *bandwidthSync) finish(uses treeplan.Uses) {
	if b.plan.Empty() {
		return
	}
	b.plan = treeplan.MakeBandwidth(b.aim, b.trees, uses, ownedOf(b.State))
	if wrong := treeplan.CheckBandwidth(b.plan, b.trees, uses); len(wrong) > 0 {
		b.plan.Steps, b.plan.Objections = nil, append(b.plan.Objections, wrong...)
	}
}

// addTo adds the plan for bandwidth to the one for devices, for a person.
func (b *bandwidthSync) addTo(plan *treeplan.Plan) {
	plan.Steps = append(plan.Steps, b.plan.Steps...)
	plan.Objections = append(plan.Objections, b.plan.Objections...)
	for _, sentence := range b.notReachedSentences() {
		plan.Objections = append(plan.Objections, treeplan.Objection{Text: sentence})
	}
	plan.Notes = append(plan.Notes, b.plan.Notes...)
	plan.Notes = append(plan.Notes, b.findings...)
}

func (b *bandwidthSync) notReachedSentences() (sentences []string) {
	for _, name := range slices.Sorted(maps.Keys(b.notReached)) {
		sentences = append(sentences, fmt.Sprintf("the bandwidth of hypervisor %s is not reported: %s", name,
			b.notReached[name]))
	}
	return sentences
}

// ownedWith returns what the agent owns with the plan for devices and this one. What is in a tree that could not be
// read stays owned.
func (b *bandwidthSync) ownedWith(devices treeplan.OwnedSet) treeplan.OwnedSet {
	out := treeplan.OwnedSet{}
	if b.unread {
		for id, owned := range ownedOf(b.State) {
			if _, seen := b.trees.ByID(id); !seen {
				out[id] = owned
			}
		}
	}
	maps.Copy(out, b.plan.Owned)
	maps.Copy(out, devices)
	return out
}

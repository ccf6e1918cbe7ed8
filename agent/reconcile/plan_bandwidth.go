package reconcile

import (
	"fmt"
	"maps"
	"slices"

	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/survey"
	"github.com/openberth/berth/agent/treeplan"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

// bandwidthPlanning is the plan for bandwidth providers, with the input that it was made from. They may be in the trees
// of several roots. The plan is separate from that for devices: neither prevents the other.
type bandwidthPlanning struct {
	aim        treeplan.Bandwidth
	trees      provider.Tree // of all roots that were read
	plan       treeplan.Plan
	agents     []bandwidth.Agent
	notReached map[string]string // why a root is not available, by hypervisor name
	unread     bool              // a tree could not be read
	findings   []string          // about interfaces
}

// withBandwidth adds to an observation what the plan for bandwidth needs.
func (s *syncer) withBandwidth(e Observe) Observe {
	if !s.config.ReportBandwidth {
		return e
	}
	names := map[string]bool{}
	for _, a := range s.config.Bandwidth {
		for _, d := range a.Providers() {
			names[d.Name.Hypervisor] = d.Name.Hypervisor != s.config.Host
		}
	}
	maps.DeleteFunc(names, func(_ string, other bool) bool { return !other })
	e.Hypervisors, e.Owned = slices.Sorted(maps.Keys(names)), slices.Sorted(maps.Keys(s.state.Owned()))
	return e
}

// draftBandwidth returns the plan for bandwidth without the usages of providers.
func (s *syncer) draftBandwidth(o Observation) bandwidthPlanning {
	b := bandwidthPlanning{notReached: map[string]string{}}
	if !s.config.ReportBandwidth {
		return b
	}
	root := s.view.identity.Provider
	roots := map[string]provider.ID{s.config.Host: root}
	b.agents, b.trees.Providers = s.config.Bandwidth, slices.Clone(s.view.facts.Actual.Providers)
	if _, there := s.view.facts.Actual.ByID(root); !there { // the plan for devices creates it
		b.trees.Providers = append(b.trees.Providers, provider.Provider{ID: root, Name: s.config.Host, Root: root})
	}
	for _, other := range o.Elsewhere {
		b.addTree(other, roots)
	}
	machine := survey.BandwidthFacts{Agents: b.agents, Roots: roots, NICs: o.Machine.NICs, NICsRead: o.Machine.NICsRead,
		Devices: s.view.facts.Devices}
	b.aim = treeplan.Bandwidth{Providers: survey.Bandwidth(machine), Owns: s.ownsBandwidth(root, b.notReached)}
	absent := map[string]bool{} // with an objection of the plan
	for _, d := range b.aim.Providers {
		absent[d.Name.Device] = absent[d.Name.Device] || d.Absent != ""
	}
	for _, f := range survey.InterfaceFindings(machine) {
		if !f.Wrong || !absent[f.Device] {
			b.findings = append(b.findings, f.Sentence)
		}
	}
	b.plan = treeplan.MakeBandwidth(b.aim, b.trees, nil, ownedOf(s.state))
	return b
}

// addTree adds a tree that was read, or the reason why it cannot be used.
func (b *bandwidthPlanning) addTree(other OtherTree, roots map[string]provider.ID) {
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

// ownsBandwidth returns the rule for providers that are not configured any more: the agent owns those that its journal
// has, and below the host's own root all of the agent types that it reports.
func (s *syncer) ownsBandwidth(root provider.ID, notReached map[string]string) func(provider.Provider,
	bandwidth.Name) bool {
	owned, configured := s.state.Owned(), map[bandwidth.AgentType]bool{}
	for _, a := range s.config.Bandwidth {
		configured[a.Type] = true
	}
	return func(p provider.Provider, n bandwidth.Name) bool {
		if _, unknown := notReached[n.Hypervisor]; unknown {
			return false
		}
		_, written := owned[p.ID]
		return written || p.Root == root && configured[n.Agent]
	}
}

// usedProviders lists the existing providers that the draft changes: the final plan needs their usages.
func (b *bandwidthPlanning) usedProviders() []provider.ID {
	used := map[provider.ID]bool{}
	for _, step := range b.plan.Steps {
		if _, there := b.trees.ByID(step.Provider); there {
			used[step.Provider] = true
		}
	}
	return slices.Sorted(maps.Keys(used))
}

// finish makes the final plan with the usages of providers. A plan with an objection of the check is discarded whole.
func (b *bandwidthPlanning) finish(uses treeplan.Uses, owned treeplan.OwnedSet) {
	if b.plan.Empty() {
		return
	}
	b.plan = treeplan.MakeBandwidth(b.aim, b.trees, uses, owned)
	if wrong := treeplan.CheckBandwidth(b.plan, b.trees, uses); len(wrong) > 0 {
		b.plan.Steps, b.plan.Objections = nil, append(b.plan.Objections, wrong...)
	}
}

// addTo adds the plan for bandwidth to the one for devices, for a person.
func (b *bandwidthPlanning) addTo(plan *treeplan.Plan) {
	plan.Steps = append(plan.Steps, b.plan.Steps...)
	plan.Objections = append(plan.Objections, b.plan.Objections...)
	for _, sentence := range b.notReachedSentences() {
		plan.Objections = append(plan.Objections, treeplan.Objection{Text: sentence})
	}
	plan.Notes = append(plan.Notes, b.plan.Notes...)
	plan.Notes = append(plan.Notes, b.findings...)
}

func (b *bandwidthPlanning) notReachedSentences() (sentences []string) {
	for _, name := range slices.Sorted(maps.Keys(b.notReached)) {
		sentences = append(sentences, fmt.Sprintf("the bandwidth of hypervisor %s is not reported: %s", name,
			b.notReached[name]))
	}
	return sentences
}

// ownedWith returns what the agent owns with the plan for devices and this one. What is in a tree that could not be
// read stays owned.
func (b *bandwidthPlanning) ownedWith(devices treeplan.OwnedSet, state journal.State) treeplan.OwnedSet {
	out := treeplan.OwnedSet{}
	if b.unread {
		for id, owned := range ownedOf(state) {
			if _, seen := b.trees.ByID(id); !seen {
				out[id] = owned
			}
		}
	}
	maps.Copy(out, b.plan.Owned)
	maps.Copy(out, devices)
	return out
}

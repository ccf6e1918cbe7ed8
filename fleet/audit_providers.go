package fleet

import (
	"fmt"
	"slices"
	"strings"

	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/hosttree"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// providers compares providers with hypervisors, services and agents, and allocations with inventories.
func (a *audit) providers() {
	hypervisors, services := map[string]*Hypervisor{}, map[string]bool{}
	for i := range a.Hypervisors {
		h := &a.Hypervisors[i]
		hypervisors[h.Name] = h
		a.hypervisor(h)
	}
	for _, s := range a.Services {
		services[s.Host] = true
	}
	agents := map[string][]string{}
	for _, agent := range a.Agents {
		agents[agent.Host] = append(agents[agent.Host], agent.Type)
	}
	trees, reported := a.trees(), a.reportedAddresses()
	for i := range a.View.Providers {
		p := &a.View.Providers[i]
		a.capacity(p)
		root := a.View.Provider[p.Root]
		if root == nil || a.Missing(Providers, Hypervisors, Services) {
			continue
		}
		if h := hypervisors[root.Name]; h == nil {
			if p == root && !a.shared(p) && !services[p.Name] && isCompute(p) {
				a.withoutService(trees[p.ID])
			}
			continue
		} else if why := a.ownerGone(p, h, agents, reported); why != "" {
			a.emptied(p, why)
		}
	}
}

// isCompute reports whether a root provider is that of a host of compute, by the classes of its inventory. Other
// services have providers of their own.
func isCompute(p *Provider) bool {
	for _, class := range []resource.Class{"VCPU", "PCPU", "MEMORY_MB"} {
		if _, has := p.Inventories[class]; has {
			return true
		}
	}
	return false
}

// trees returns the providers of each tree.
func (a *audit) trees() map[provider.ID][]*Provider {
	all := map[provider.ID][]*Provider{}
	for i := range a.View.Providers {
		p := &a.View.Providers[i]
		all[p.Root] = append(all[p.Root], p)
	}
	return all
}

// hypervisor compares a hypervisor with its root provider.
func (a *audit) hypervisor(h *Hypervisor) {
	root := a.Root[h.Name]
	f := Finding{Subject: string(h.ID), Name: h.Name, Host: h.Name}
	switch {
	case root == nil && !a.Missing(Providers):
		f.Rule, f.Evidence = NoProvider, "Placement has no root provider with this name"
		f.Kept = "the compute service of the host creates it; see its log"
	case root != nil && h.ID != "" && root.ID != h.ID:
		f.Rule, f.Evidence = OtherProvider, fmt.Sprintf("the provider has the id %s, the hypervisor %s", root.ID, h.ID)
		f.Kept = "move the allocations, then delete the provider, and restart the compute service of the host"
	default:
		return
	}
	a.report(f)
}

// capacity reports inventories of which more is allocated than they have.
func (a *audit) capacity(p *Provider) {
	sums := resource.Amounts{}
	for _, amounts := range p.Held {
		for class, n := range amounts {
			sums[class] += n
		}
	}
	for _, class := range sums.Sorted() {
		if of := p.Inventories[class].Capacity(); sums[class] > of {
			a.report(Finding{Rule: Overcommitted, Subject: string(p.ID), Name: p.Name, Host: a.HostOf(p),
				Evidence: fmt.Sprintf("%d of %d %s are allocated", sums[class], of, class),
				Kept:     "move servers away, or raise the inventory"})
		}
	}
}

// withoutService reports a tree of a host that compute does not have. It is deleted if nothing of it is allocated.
func (a *audit) withoutService(tree []*Provider) {
	used := slices.ContainsFunc(tree, func(p *Provider) bool { return len(p.Held) > 0 })
	for _, p := range tree {
		f := Finding{Rule: NoService, Subject: string(p.ID), Name: p.Name, Host: a.HostOf(p),
			Evidence: "compute has no hypervisor and no service of this host"}
		if a.cellDown {
			f.Kept = cellIsDown
		} else if used {
			f.Kept = "something of its tree is allocated; what is orphaned is removed first"
		} else {
			f.Change = &Change{Provider: &ProviderChange{Provider: p.Provider, Delete: true, Depth: a.depth(p)}}
		}
		a.report(f)
	}
}

// depth returns how many providers are above one.
func (a *audit) depth(p *Provider) (n int) {
	for p = a.View.Provider[p.Parent]; p != nil && n < len(a.View.Providers); p = a.View.Provider[p.Parent] {
		n++
	}
	return n
}

// ownerGone returns why the owner of a provider is gone, as a clause; empty: it is not, or that is not known.
func (a *audit) ownerGone(p *Provider, h *Hypervisor, agents map[string][]string, reported map[string]bool) string {
	if len(p.Inventories) == 0 {
		return ""
	}
	if n, ok := bandwidth.Recognise(p.Provider); ok && len(a.Agents) > 0 && !a.Missing(Agents) {
		types := slices.Concat(agents[h.Host], agents[h.Name])
		if len(types) == 0 || slices.ContainsFunc(types, func(kind string) bool {
			return kind == string(n.Agent) || n.Agent == bandwidth.OVN && strings.HasPrefix(kind, "OVN")
		}) {
			return "" // without any agent, those of the host may have another name (resource_provider_hypervisors)
		}
		return fmt.Sprintf("the network service has other agents of the host, and no %s", n.Agent)
	}
	kind, address := a.KindOf(p)
	if kind == hosttree.PCI && reported[h.Name] && !a.Missing(Reported) && !reported[h.Name+" "+address] &&
		!reported[string(p.ID)] { // the provider of a PF may have its VFs only
		return "the agent of the host does not report the device"
	}
	return ""
}

// reportedAddresses returns the hosts, devices and providers of devices that agents of Berth report.
func (a *audit) reportedAddresses() map[string]bool {
	all := map[string]bool{}
	for _, d := range a.Reported {
		all[d.Host], all[d.Host+" "+d.Address], all[string(d.Provider)] = true, true, true
	}
	return all
}

// emptied reports a provider whose owner is gone. Its inventories are emptied if nothing of them is allocated.
func (a *audit) emptied(p *Provider, why string) {
	f := Finding{Rule: OwnerGone, Subject: string(p.ID), Name: p.Name, Host: a.HostOf(p), Evidence: why}
	switch {
	case len(p.Held) > 0:
		f.Kept = "something of it is allocated"
	case a.Berth:
		f.Kept = "the agent of the host removes it"
	default:
		f.Change = &Change{Provider: &ProviderChange{Provider: p.Provider}}
	}
	a.report(f)
}

// ports compares ports with servers, providers and each other, and the reports of agents with Placement.
func (a *audit) ports() {
	devices := map[string]*Port{}
	for i := range a.View.Ports {
		p := &a.View.Ports[i]
		server := a.Server[resource.ConsumerID(p.Server)]
		f := Finding{Subject: p.ID, Name: p.ID, Host: p.Host}
		if server == nil {
			if !a.Missing(Servers) {
				f.Rule, f.Evidence = LostPort, fmt.Sprintf("compute has no server %s", p.Server)
				a.report(f)
			}
			continue
		}
		if len(a.Moves[p.Server]) > 0 || server.TaskState != "" {
			continue
		}
		if p.Device != "" && p.Host != "" {
			if other := devices[p.Host+" "+p.Device]; other != nil {
				f.Rule, f.Evidence = DeviceTwice, fmt.Sprintf("port %s of server %s has device %s too", other.ID, other.Server,
					p.Device)
				a.report(f)
			}
			devices[p.Host+" "+p.Device] = p
		}
		for _, id := range p.Providers {
			if a.Missing(Providers) || len(a.Held[resource.ConsumerID(p.Server)][id]) > 0 ||
				server.Host != "" && !a.holdsGuarantees(p.Server) {
				continue
			}
			f.Rule, f.Evidence = PortProvider, fmt.Sprintf("its profile names provider %s, of which server %s holds nothing",
				id, server.Name)
			f.Kept = "`nova-manage placement heal_allocations` or binding the port again corrects it"
			a.report(f)
		}
	}
	a.holders()
}

// holdsGuarantees reports whether a server holds what its ports request, from any providers. If it does not, that is
// one difference, NoAllocation or PortAmounts; which providers its ports name is compared when it is healed.
func (a *audit) holdsGuarantees(server string) bool {
	held := a.Held[resource.ConsumerID(server)].Sum()
	for class, n := range a.guarantees(server) {
		if held[class] < n {
			return false
		}
	}
	return true
}

// holdsNothing reports whether a server on a host has no allocation at all. That is one difference, NoAllocation; what
// its ports and devices lack follows from it.
func (a *audit) holdsNothing(s *Server) bool {
	return s.Host != "" && len(a.Held[resource.ConsumerID(s.ID)]) == 0
}

// holders compares the holders of devices that agents of Berth report with Placement.
func (a *audit) holders() {
	for _, d := range a.Reported {
		p := a.View.Provider[d.Provider]
		if d.Holder == "" || p == nil || a.Missing(Providers) || len(p.Held[d.Holder]) > 0 {
			continue
		}
		if s := a.Server[d.Holder]; s != nil && (s.TaskState != "" || len(a.Moves[s.ID]) > 0 || a.holdsNothing(s)) {
			continue
		}
		a.report(Finding{Rule: OtherHolder, Subject: string(p.ID), Name: p.Name, Host: d.Host,
			Evidence: fmt.Sprintf("the agent reports that %s holds it, and Placement has no allocation of it",
				a.Holder(d.Holder, 1))})
	}
}

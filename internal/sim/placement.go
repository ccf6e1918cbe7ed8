package sim

import (
	"slices"
	"strings"

	"github.com/openberth/berth/agent/treeplan"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/placement/placementtest"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// inventory is a class of a provider.
type inventory struct {
	provider provider.ID
	class    resource.Class
}

// placementModel is Placement.
type placementModel struct {
	*kernel
	*hostModel
	*exemptions
	*placementtest.Placement
	lowered          map[inventory]int    // amounts in use that exceed what agents have reported since
	restores         int                  // of its database
	disabled         map[provider.ID]bool // an operator has disabled a device of them
	cleaned          map[provider.ID]bool // their reserved amount may become smaller: their devices were cleaned
	foreignConsumers []string
}

func newPlacement(k *kernel, hm *hostModel, x *exemptions) *placementModel {
	pm := &placementModel{kernel: k, hostModel: hm, exemptions: x, cleaned: map[provider.ID]bool{},
		disabled: map[provider.ID]bool{},
		lowered:  map[inventory]int{}}
	pm.Placement = placementtest.New(func(root provider.ID) {
		if m := hm.byRoot[root]; m != nil {
			hm.markHost(m.name)
		}
	})
	if k.options.Seed%2 == 1 {
		pm.RefuseOverCapacity()
	}
	return pm
}

// restore replaces Placement's database by an earlier one.
func (pm *placementModel) restore(from *placementtest.Placement) {
	before := pm.allocations()
	pm.Restore(from)
	pm.restores++
	for _, m := range slices.Concat(pm.hosts, pm.copies) {
		m.service.lost = true
	}
	now := pm.allocations()
	for _, all := range []map[resource.ConsumerID]resource.Allocation{before, now} {
		for c := range all {
			if !before[c].Equal(now[c]) {
				pm.altered[pm.ownerOf[string(c)]], pm.putBack[pm.ownerOf[string(c)]] = true, true
			}
		}
	}
	delete(pm.altered, "")
	pm.foreignConsumers = nil
	for _, c := range pm.Consumers() {
		if strings.HasPrefix(string(c), foreign) {
			pm.foreignConsumers = append(pm.foreignConsumers, string(c))
		}
	}
}

// allocations returns the allocations of all consumers.
func (pm *placementModel) allocations() map[resource.ConsumerID]resource.Allocation {
	out := map[resource.ConsumerID]resource.Allocation{}
	for _, c := range pm.Consumers() {
		out[c] = pm.Held(c)
	}
	return out
}

// drop removes the allocation of a consumer.
func (pm *placementModel) drop(c resource.ConsumerID) {
	if err := pm.DeleteAllocation(background, c); err != nil {
		pm.violation(nil, "placement: %v", err)
	}
}

// foreign is the prefix of consumers that are not compute's.
const foreign = "x"

// setZone is the operator of a zone, who marks each new root provider of it.
func (pm *placementModel) setZone(m *simHost, root provider.Provider) {
	root.Traits = append(slices.Clone(root.Traits), zoneTrait(m.zone))
	root.Generation++
	pm.SetProvider(root)
}

// checkReserved: the reserved amount of a device for one-time use becomes smaller only after the device was cleaned or
// enabled, and no guest has started with it since. While a server has the device, a plan of before its start does no
// harm.
func (pm *placementModel) checkReserved(p provider.Provider, next map[resource.Class]resource.Inventory) {
	if _, network := bandwidth.Recognise(p); network {
		return // bandwidth is reserved while its interface does not exist
	}
	for class, inv := range next {
		was := p.Inventories[class]
		if inv.Reserved < min(was.Reserved, inv.Total) && p.Parent != "" && !pm.cleaned[p.ID] && !pm.isReleased(p) &&
			len(pm.Holders(p.ID)) == 0 {
			pm.violation(nil, "reserved: %s of %s becomes %d after %d, and the device was not cleaned", class, p.Name,
				inv.Reserved, was.Reserved)
		}
	}
}

// noteLowered notes that an agent has reported less than is in use: bandwidth, as it is configured now, or, with
// restored, something that it has planned for the state before Placement was restored.
func (pm *placementModel) noteLowered(p provider.Provider, restored bool) {
	if _, network := bandwidth.Recognise(p); !network && !restored {
		return
	}
	for class, used := range pm.Used(p.ID) {
		if inv := p.Inventories[class]; used > int(float64(inv.Total)*inv.AllocationRatio) {
			pm.lowered[inventory{p.ID, class}] = used
			pm.report.Happened["lowered below use"]++
		}
	}
}

// nudge is another client that writes to the tree of a host.
func (pm *placementModel) nudge(m *simHost) {
	ids := pm.TreeIDs(m.root)
	if len(ids) == 0 {
		return
	}
	p, _ := pm.Provider(ids[pm.rng.IntN(len(ids))])
	p.Generation++
	pm.SetProvider(p)
}

// keptForPorts reports whether a provider that is not configured any more is in use by ports, or has such a child, or
// the provider of VFs that are in use: nothing more of it can be allocated.
func (pm *placementModel) keptForPorts(p provider.Provider) bool {
	for _, inv := range p.Inventories {
		if inv.Reserved < inv.Total {
			return false
		}
	}
	if len(pm.Used(p.ID)) > 0 {
		return true
	}
	return slices.ContainsFunc(pm.TreeIDs(p.Root), func(id provider.ID) bool {
		child, _ := pm.Provider(id)
		_, network := bandwidth.Recognise(child)
		return child.Parent == p.ID && (network && pm.keptForPorts(child) || !network && len(pm.Used(id)) > 0)
	})
}

// hasFormerBandwidth reports whether Placement has bandwidth of a host that is not configured any more.
func (pm *placementModel) hasFormerBandwidth(m *simHost) bool {
	configured := map[provider.ID]bool{}
	for _, a := range m.bandwidth() {
		for _, d := range a.Providers() {
			configured[d.Provider.ID] = true
		}
	}
	return slices.ContainsFunc(pm.TreeIDs(m.root), func(id provider.ID) bool {
		p, _ := pm.Provider(id)
		_, is := bandwidth.Recognise(p)
		return is && !configured[id]
	})
}

// hasFormerDevices reports whether Placement has more devices of a host than its agent has reported.
func (pm *placementModel) hasFormerDevices(m *simHost) bool {
	reported := map[provider.ID]int{}
	for _, d := range m.host.row.report.Devices {
		reported[d.Provider] += max(d.Slices, 1)
	}
	return slices.ContainsFunc(pm.TreeIDs(m.root), func(id provider.ID) bool {
		p, _ := pm.Provider(id)
		_, node := numa.NodeOf(m.name, p.Name)
		_, network := bandwidth.Recognise(p)
		total := 0
		for _, inv := range p.Inventories {
			total = max(total, inv.Total)
		}
		return p.Parent != "" && !node && !network && total > reported[id]
	})
}

// isOfPorts reports whether an objection is about bandwidth that ports use, or whose provider stays because of devices
// in use: the agent can only report it.
func (pm *placementModel) isOfPorts(o treeplan.Objection) bool {
	p, _ := pm.Provider(o.Provider)
	_, network := bandwidth.Recognise(p)
	return network && (len(pm.Used(o.Provider)) > 0 || pm.keptForPorts(p))
}

// someRestored reports whether a restore of Placement has changed the allocation of a consumer of a provider: it
// restores generations too, so that a write of an agent may succeed that was made for another state.
func (pm *placementModel) someRestored(id provider.ID) bool {
	for c := range pm.Holders(id) {
		if pm.altered[pm.ownerOf[string(c)]] {
			return true
		}
	}
	return false
}

// isReleased reports whether an agent may lower the reserved amount of a provider without cleaning its device: a device
// of it was disabled, and the journal has none as used.
func (pm *placementModel) isReleased(p provider.Provider) bool {
	for _, use := range pm.byRoot[p.Root].disk.found.Spent() {
		if use.Provider == p.ID && !use.Returning {
			return false
		}
	}
	return pm.disabled[p.ID]
}

package survey

import (
	"cmp"
	"slices"
	"strings"

	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// vnicTypes returns the vnic types of ports that a device can serve.
func vnicTypes(d pci.Device, rule pci.Rule) []string {
	switch class := pci.PortClass(d); {
	case class == pci.PortVDPA:
		return []string{"vdpa"}
	case class == pci.PortNIC:
		return []string{"direct-physical"}
	case rule.Tags.RemoteManaged == pci.Yes:
		return []string{"remote-managed"}
	}
	return []string{"direct", "macvtap", "virtio-forwarder"}
}

// networkTraits returns the traits by which the groups of ports require a device: its physical network and the vnic
// types of ports that it can serve.
func networkTraits(d pci.Device, rule pci.Rule) []resource.Trait {
	network := bandwidth.Tunnel
	if rule.Tags.PhysicalNetwork != "" {
		network = bandwidth.PhysnetTrait(rule.Tags.PhysicalNetwork)
	}
	traits := []resource.Trait{network}
	for _, vnicType := range vnicTypes(d, rule) {
		traits = append(traits, bandwidth.VNICTrait(vnicType))
	}
	return traits
}

// counts reports whether Placement counts the devices of a rule.
func (f Facts) counts(r pci.Rule) bool { return f.Report && (f.ReportNetwork || !r.ForPorts()) }

// chooseParts makes Placement count either a PF or its VFs, where both are for ports: the PF while a guest holds it,
// otherwise the VFs. Placement cannot express that they exclude each other.
func (f Facts) chooseParts(found []match) {
	virtual := map[pci.Address]bool{} // PFs with counted VFs for ports
	for _, m := range found {
		if m.counted && m.rule.ForPorts() && m.offer.Device.Parent != nil {
			virtual[*m.offer.Device.Parent] = true
		}
	}
	for i := range found {
		m := &found[i]
		at := m.offer.Device.Holder()
		if !m.counted || !m.rule.ForPorts() || !virtual[at] || !f.offersWhole(found, at) {
			continue
		}
		if isPF := m.offer.Device.Parent == nil; isPF != f.holds(at) {
			m.counted, m.offer.Name, m.offer.Provider = false, "", ""
		}
	}
}

// offersWhole reports whether a PF is offered to ports as a whole.
func (f Facts) offersWhole(found []match, pf pci.Address) bool {
	return slices.ContainsFunc(found, func(m match) bool { return m.offer.Device.Address == pf && m.rule.ForPorts() })
}

func (f Facts) holds(at pci.Address) bool {
	for _, c := range f.Held {
		if c.Device.Address == at {
			return true
		}
	}
	return false
}

// parent returns the provider below which the provider of a group belongs: the bandwidth provider of its NIC, so that a
// port gets bandwidth and device from one NIC; otherwise the root.
func (f Facts) parent(g group) provider.ID {
	counted := g.counted()
	if len(counted) == 0 || !counted[0].rule.ForPorts() {
		if old, there := f.Actual.ByID(f.id(g.name)); there && len(counted) == 0 && old.Parent != "" {
			return old.Parent // only held devices are left
		}
		return f.Root
	}
	return cmp.Or(f.bandwidthOf(counted[0].offer.Device, counted[0].rule), f.Root)
}

// bandwidthOf returns the provider of the guaranteed bandwidth of a device for ports: that of the interface of its
// NIC, or of the bridge that connects it; empty: there is none. A provider without bandwidth to allocate is left out:
// its reporter may delete it, which Placement refuses while it has a child.
func (f Facts) bandwidthOf(d pci.Device, rule pci.Rule) provider.ID {
	network, vnicType := networkTraits(d, rule)[0], "direct"
	isVDPA := pci.PortClass(d) == pci.PortVDPA
	if isVDPA {
		vnicType = "vdpa"
	}
	interfaces := f.interfaces(d.Holder())
	var bridges []provider.ID
	nicSwitch := false
	for _, p := range f.Actual.Providers {
		n, is := bandwidth.Recognise(p)
		nicSwitch = nicSwitch || is && n.Agent == bandwidth.NICSwitch
		switch {
		case !is || n.Device == "" || !hasBandwidth(p):
		case n.Agent == bandwidth.NICSwitch && isVDPA: // such an agent binds no vdpa ports
		case slices.Contains(interfaces, n.Device):
			return p.ID
		case n.Agent != bandwidth.NICSwitch && p.HasTrait(network) && p.HasTrait(bandwidth.VNICTrait(vnicType)):
			bridges = append(bridges, p.ID)
		}
	}
	// With offloading, a bridge connects the VFs: it is the one of their physical network. A bridge always connects vDPA
	// devices.
	if len(bridges) == 1 && (isVDPA || !nicSwitch) {
		return bridges[0]
	}
	return ""
}

// withBandwidth sets the bandwidth providers of devices for ports. Devices of one NIC with the same network share one.
func (f Facts) withBandwidth(found []match) {
	type nic struct {
		at      pci.Address
		network string
		class   resource.Class
	}
	known := map[nic]provider.ID{}
	for i := range found {
		m := &found[i]
		if !m.rule.ForPorts() {
			continue
		}
		key := nic{m.offer.Device.Holder(), m.rule.Tags.PhysicalNetwork, pci.PortClass(m.offer.Device)}
		id, is := known[key]
		if !is {
			id = f.bandwidthOf(m.offer.Device, m.rule)
			known[key] = id
		}
		m.offer.Bandwidth = id
	}
}

// hasBandwidth reports whether a provider has bandwidth to allocate.
func hasBandwidth(p provider.Provider) bool {
	egress, ingress := p.Inventories[bandwidth.EgressBandwidth], p.Inventories[bandwidth.IngressBandwidth]
	return egress.Capacity() > 0 || ingress.Capacity() > 0
}

// interfaces returns the names of the network interfaces of a device, and of the bonds that contain them.
func (f Facts) interfaces(at pci.Address) (names []string) {
	if d := f.byAddress()[at]; d != nil {
		names = append(names, d.Net...)
	}
	bonds := map[string]bool{}
	for _, n := range f.NICs {
		bonds[n.Name] = n.Bond
	}
	for _, n := range f.NICs {
		if n.Address != nil && *n.Address == at {
			names = append(names, n.Name)
			if bonds[n.Master] {
				names = append(names, n.Master)
			}
		}
	}
	slices.SortFunc(names, strings.Compare)
	return slices.Compact(names)
}

package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// trueHost is what a machine has free: its hardware as the operator has configured it, without what the guests of its
// hypervisor have. Nothing of it is of compute's records, of reports or of Placement's allocations.
type trueHost struct {
	machine *simHost
	room    numa.Host
	root    map[resource.Class]trueClass
	offered []trueDevice // all that device_spec offers to aliases, also those in use
	socket  bool         // the sockets of all nodes with CPUs are known
	smt     bool         // a core has several threads
}

// trueClass is an amount that a host has beside its nodes.
type trueClass struct{ total, limit, used int }

// fits reports whether an amount is left. The amounts of one guest are never overcommitted against themselves.
func (c trueClass) fits(amount int) bool { return amount <= c.total && c.used+amount <= c.limit }

// trueDevice is a device that a host offers.
type trueDevice struct {
	pci.Device
	rule   pci.Rule
	traits []resource.Trait // of its provider: what an agent does not know as its own stays there
	free   bool
	maybe  bool // whether it is free depends on the clock: its disablement has ended by one of two
}

// trueHost returns what a machine has free.
func (c *cloud) trueHost(m *simHost) trueHost {
	t := trueHost{machine: m, socket: true, root: map[resource.Class]trueClass{}}
	cpus, dedicated, memory := 0, 0, 0
	for _, n := range m.nodes {
		cell := numa.Cell{ID: n.ID, Socket: n.Socket, MemoryMB: n.MemoryMB, CPUs: n.CPUs}
		if m.cpus.Shared != nil {
			cell.CPUs, cell.Dedicated = common(n.CPUs, m.cpus.Shared), common(n.CPUs, m.cpus.Dedicated)
		}
		for _, core := range n.Siblings {
			if len(core) > 1 {
				cell.Siblings, t.smt = append(cell.Siblings, core), true
			}
		}
		for _, p := range n.Pages {
			cell.Pages = append(cell.Pages, numa.Pages{SizeKB: p.SizeKB, Total: p.Total})
		}
		t.socket = t.socket && (len(n.CPUs) == 0 || n.Socket != numa.NoSocket)
		cpus, dedicated, memory = cpus+len(cell.CPUs), dedicated+len(cell.Dedicated), memory+n.MemoryMB
		t.room.Cells = append(t.room.Cells, cell)
	}
	t.room.Limits = numa.Limits{CPU: m.cpus.CPURatio, Memory: m.cpus.MemoryRatio}
	add := func(class resource.Class, total int, ratio float64) {
		t.root[class] = trueClass{total: total, limit: int(float64(total) * max(ratio, 1))}
	}
	add("VCPU", cpus, m.cpus.CPURatio)
	add(numa.DedicatedCPUs, dedicated, 1)
	add("MEMORY_MB", memory, m.cpus.MemoryRatio)
	add("DISK_GB", diskGB, 1)
	t.useGuests()
	c.offer(&t)
	return t
}

// common returns the CPUs that are in both lists.
func common(a, b []int) (list []int) {
	for _, n := range a {
		if slices.Contains(b, n) {
			list = append(list, n)
		}
	}
	return list
}

// useGuests takes what the guests of the machine have of its nodes, CPUs, memory and disk.
func (t *trueHost) useGuests() {
	use := func(class resource.Class, n int) {
		c := t.root[class]
		c.used += n
		t.root[class] = c
	}
	for _, g := range t.machine.guests {
		shared := g.VCPUs
		for _, cell := range g.Cells {
			shared -= len(cell.CPUs)
			use(numa.DedicatedCPUs, len(cell.CPUs)+len(cell.Emulator))
			for i := range t.room.Cells {
				to := &t.room.Cells[i]
				if to.ID != cell.Node {
					continue
				}
				to.Pinned = append(append(to.Pinned, slices.Collect(maps.Values(cell.CPUs))...), cell.Emulator...)
				to.Floating += len(cell.VCPUs) - len(cell.CPUs)
				if cell.PageKB == 0 {
					to.UsedMemory += cell.MemoryMB
				}
				for p := range to.Pages {
					if to.Pages[p].SizeKB == cell.PageKB {
						to.Pages[p].Used += cell.MemoryMB * 1024 / cell.PageKB
					}
				}
			}
		}
		use("VCPU", shared)
		use("MEMORY_MB", g.MemoryMB)
		use("DISK_GB", g.DiskGB)
	}
}

// offer lists the devices that the machine offers to aliases. One is free if no guest has it, its PF or one of its VFs,
// no operator has disabled it, and it is not used if it is for one-time use.
func (c *cloud) offer(t *trueHost) {
	m, held, parents := t.machine, map[pci.Address]bool{}, map[pci.Address]pci.Device{}
	for _, g := range m.guests {
		for _, at := range addresses(*g) {
			held[at] = true
		}
	}
	there := m.devices()
	for _, d := range there {
		parents[d.Address] = d
		if held[d.Address] && d.Parent != nil {
			held[*d.Parent] = true // the PF of a VF; its other VFs are looked for below
		}
	}
	given := func(d pci.Device) bool { // as a whole
		for _, g := range m.guests {
			if d.Parent != nil && slices.Contains(addresses(*g), *d.Parent) {
				return true
			}
		}
		return held[d.Address]
	}
	for _, d := range there {
		var parent *pci.Device
		if d.Parent != nil {
			pf := parents[*d.Parent]
			parent = &pf
		}
		rule, is := m.rules[m.rule].First(d, parent)
		if !is || rule.ForPorts() {
			continue
		}
		disabled, perhaps := c.isDisabled(m, d)
		_, spent := m.disk.found.Spent()[device.PCI(d.Address)]
		of := c.providerOf(m, d)
		for _, inv := range of.Inventories { // only Placement may know it after the journal was lost
			spent = spent || inv.Reserved > 0
		}
		spent = spent && rule.Tags.OneTimeUse == pci.Yes
		left := !given(d) && !spent
		t.offered = append(t.offered, trueDevice{Device: d, rule: rule, traits: of.Traits, free: left && !disabled,
			maybe: left && perhaps})
	}
}

// isDisabled reports whether an operator has disabled a device, its PF or one of its VFs, and whether that has ended by
// the clock of the agent or by that of compute.
func (c *cloud) isDisabled(m *simHost, d pci.Device) (disabled, perhaps bool) {
	all := m.disk.found.Disabled()
	all = append(all, slices.Collect(maps.Values(m.host.row.devices.disabled))...)
	perhaps = true
	for _, x := range all {
		affected := x.Address == d.Address || d.Parent != nil && x.Address == *d.Parent ||
			slices.ContainsFunc(m.made, func(vf pci.Device) bool {
				return vf.Address == x.Address && vf.Parent != nil && *vf.Parent == d.Address
			})
		if affected {
			disabled = true
			perhaps = perhaps && (x.Expired(c.now) || x.Expired(c.agentTime()))
		}
	}
	return disabled, disabled && perhaps
}

// providerOf returns what Placement has of a device.
func (c *cloud) providerOf(m *simHost, d pci.Device) provider.Provider {
	for _, id := range c.placement.TreeIDs(m.root) {
		if p, _ := c.placement.Provider(id); p.Name == m.name+"_"+strings.ToUpper(d.Holder().String()) {
			return p
		}
	}
	return provider.Provider{}
}

// nearest returns the nodes with CPUs that are nearest to a device; nil: unknown.
func (m *simHost) nearest(d pci.Device) (list []int) {
	for _, own := range m.nodes {
		if own.ID != d.NUMANode {
			continue
		}
		if len(own.CPUs) > 0 {
			return []int{own.ID}
		}
		least := 0
		for _, n := range m.nodes {
			far, known := own.Distances[n.ID]
			if len(n.CPUs) == 0 || !known || least > 0 && far > least {
				continue
			}
			if far < least {
				list = nil
			}
			least, list = far, append(list, n.ID)
		}
	}
	return list
}

// beside returns the nodes with CPUs on the sockets of nodes; nil: some socket is unknown.
func (t trueHost) beside(nodes []int) (list []int) {
	if !t.socket {
		return nil
	}
	for _, n := range t.machine.nodes {
		if len(n.CPUs) > 0 && slices.ContainsFunc(t.machine.nodes, func(o facts.Node) bool {
			return o.Socket == n.Socket && slices.Contains(nodes, o.ID)
		}) {
			list = append(list, n.ID)
		}
	}
	return list
}

// valuesOf returns the values of a device in a family.
func (d trueDevice) valuesOf(family string) []string {
	switch family {
	case pci.RootFamily:
		if len(d.Bridges) > 0 {
			return []string{d.Bridges[0].String()}
		}
		return []string{d.card().String()}
	case pci.NodeFamily:
		if d.NUMANode == pci.NoNUMA {
			return nil
		}
		return []string{fmt.Sprint(d.NUMANode)}
	case pci.CardFamily:
		if d.Parent == nil && d.Type != pci.Physical {
			return nil
		}
		return []string{d.card().String()}
	}
	return d.rule.Properties[family]
}

// card returns the address of the PF of a device, or its own.
func (d trueDevice) card() pci.Address {
	if d.Parent != nil {
		return *d.Parent
	}
	return d.Address
}

// serves reports whether a device is one that a request describes.
func (d trueDevice) serves(r pci.Request) bool {
	w := r.Requirement
	if d.rule.Class(d.Device) != w.Class {
		return false
	}
	for _, t := range w.Required {
		if !slices.Contains(d.traits, t) {
			return false
		}
	}
	for _, t := range w.Forbidden {
		if slices.Contains(d.traits, t) {
			return false
		}
	}
	return slices.ContainsFunc(append([]pci.Requirement{w}, r.Alternatives...), func(w pci.Requirement) bool {
		kind := d.Type == w.Type || w.Type == "" && (d.Type == pci.Plain || d.Type == pci.Virtual)
		return kind && (w.Vendor == "" || w.Vendor == d.Vendor) && (w.Product == "" || w.Product == d.Product) &&
			(w.LiveMigratable == pci.Unset || w.LiveMigratable == d.rule.Tags.LiveMigratable)
	})
}

package sim

import (
	"fmt"
	"strings"

	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// machine is what the agent reads of the machine.
func (m *simHost) machine() facts.Facts {
	return facts.Facts{Devices: m.devices(), Nodes: m.nodes, NICs: m.nics(), NICsRead: true}
}

// diskGB is the size of the disk of each machine.
const diskGB = 1000

// capacity is what the hypervisor of the machine has for guests.
func (m *simHost) capacity() hypervisor.Capacity {
	c := hypervisor.Capacity{DiskGB: diskGB, DiskImages: "qcow2"}
	for _, n := range m.nodes {
		c.VCPUs, c.MemoryMB = c.VCPUs+len(n.CPUs), c.MemoryMB+n.MemoryMB
	}
	return c
}

// kinds of machines, by turns.
const kinds = 6

// build makes a machine of a kind. ports: some kinds have VFs for ports. plugIn plugs in its other devices, and returns
// their configurations.
func build(n, zone int, ports bool, plugIn func(*simHost) [usualRules]string) *simHost {
	name := fmt.Sprintf("h%d", n)
	m := &simHost{name: name, tag: name, zone: zone, install: name, fresh: true, hypervised: newHypervised(),
		hardware: hardware{away: map[pci.Address]bool{}},
		root:     provider.ID(fmt.Sprintf("00000000-0000-4000-8000-%012d", n))}
	for node := range 2 {
		n := facts.Node{ID: node, Socket: node, MemoryMB: 16384}
		for cpu := range 8 {
			n.CPUs = append(n.CPUs, node*8+cpu)
		}
		m.nodes = append(m.nodes, n)
	}
	specs := plugIn(m)
	if ports && hasPortVFs(n%kinds) {
		specs = m.addPortVFs(specs)
	}
	for _, text := range specs {
		rules, err := pci.ParseSpecs("[" + text + "]")
		if err != nil {
			panic(fmt.Sprintf("the simulation's own rules: %v", err))
		}
		m.rules = append(m.rules, rules)
	}
	return m
}

// devicesOf plugs in the devices of a kind of machines, and returns their configurations.
func (m *simHost) devicesOf(n, zone int) (specs [usualRules]string) {
	switch n % kinds {
	case 0, 1: // plain devices, live-migratable ones on one of the two
		specs = m.plain(zone, n%kinds == 1)
	case 2, 3: // PFs whose VFs are offered, live-migratable ones on one of the two
		specs = m.virtual(zone, n%kinds == 3)
	case 4: // PFs that are offered whole, on every second host also as their VFs
		if specs = m.physical(zone); n/kinds%2 == 1 {
			specs = m.cards(specs)
		}
	case 5:
		specs = m.disks(zone)
	}
	return specs
}

func at(bus, function int) pci.Address {
	a, err := pci.ParseAddress(fmt.Sprintf("0000:%02x:%02x.%d", bus, function/8, function%8))
	if err != nil {
		panic(err)
	}
	return a
}

const liveMigratable = `"live_migratable": "yes", `

// specs are the usual rules, the same with a trait more, and the same with another class.
func specs(zone int, more, class string) [usualRules]string {
	rule := func(class, traits string) string {
		return fmt.Sprintf(`{%s, "resource_class": "%s_%d", "traits": "%s"}`, more, class, zone, traits)
	}
	return [usualRules]string{rule(class, "GOOD"), rule(class, "GOOD,BETTER"), rule("OTHER", "GOOD")}
}

func (m *simHost) plain(zone int, live bool) [usualRules]string {
	for i := range 4 {
		m.made = append(m.made, pci.Device{Address: at(16+i, 0), Vendor: "10de", Product: "1db4", Type: pci.Plain,
			NUMANode: i % 2})
	}
	if live {
		m.flags = liveMigratable
	}
	return specs(zone, m.flags+`"vendor_id": "10de", "product_id": "1db4"`, "GPU")
}

func (m *simHost) virtual(zone int, live bool) [usualRules]string {
	for i := range 2 {
		pf := pci.Device{Address: at(64+i, 0), Vendor: "8086", Product: "1528", Type: pci.Physical, NUMANode: i, TotalVFs: 4,
			NumVFs: 4}
		m.made = append(m.made, pf)
		for v := range 4 {
			parent := pf.Address
			m.made = append(m.made, pci.Device{Address: at(64+i, 8+v), Vendor: "8086", Product: "1515", Type: pci.Virtual,
				Parent: &parent, NUMANode: i})
		}
	}
	if live {
		m.flags = liveMigratable
	}
	return specs(zone, m.flags+`"vendor_id": "8086", "product_id": "1515"`, "VF")
}

func (m *simHost) physical(zone int) [usualRules]string {
	m.virtual(zone, false)
	out := specs(zone, `"vendor_id": "8086", "product_id": "1528"`, "PF")
	out[2] = specs(zone, `"vendor_id": "8086", "product_id": "1515"`, "VF")[0] // the PFs are turned into VFs
	return out
}

// cards changes the configurations of PFs so that they are offered also as their VFs, except with the last one.
func (m *simHost) cards(specs [usualRules]string) [usualRules]string {
	m.bare = map[pci.Address]bool{}
	for i := range usualRules - 1 {
		specs[i] = strings.Replace(specs[i], "}", `, "shapes": ["pf", "vf"]}`, 1)
	}
	return specs
}

func (m *simHost) disks(zone int) [usualRules]string {
	m.once = true
	for i := range 3 {
		m.made = append(m.made, pci.Device{Address: at(32+i, 0), Vendor: "144d", Product: "a80a", Type: pci.Plain,
			NUMANode: i % 2})
	}
	m.flags = `"one_time_use": "yes", `
	return specs(zone, m.flags+`"vendor_id": "144d", "product_id": "a80a"`, "NVME")
}

// isPortVF reports whether a device is a VF for ports.
func isPortVF(d pci.Device) bool { return d.Product == portVF }

// hasPortVFs reports whether the machines of a kind have VFs for ports, beside plain devices or beside VFs for aliases.
func hasPortVFs(kind int) bool { return kind == 0 || kind == 1 || kind == 3 }

// addPortVFs plugs two NICs into a machine whose VFs are for ports, and adds their rules to the configurations: the VFs
// of both, the same as trusted ones, and the VFs of the first.
func (m *simHost) addPortVFs(specs [usualRules]string) [usualRules]string {
	for i := range portNICs {
		pf := pci.Device{Address: at(portBus+i, 0), Vendor: "8086", Product: portPF, Type: pci.Physical, NUMANode: i,
			TotalVFs: vfsOfNIC, NumVFs: vfsOfNIC}
		m.made = append(m.made, pf)
		for v := range vfsOfNIC {
			parent := pf.Address
			m.made = append(m.made, pci.Device{Address: at(portBus+i, 8+v), Vendor: "8086", Product: portVF, Type: pci.Virtual,
				Parent: &parent, NUMANode: i})
		}
	}
	m.portVFs, m.configured, m.unplugged = true, map[pci.Address]string{}, map[pci.Address]bool{}
	const all = `{"vendor_id": "8086", "product_id": "` + portVF + `", `
	for i, rule := range []string{all, all + `"trusted": "true", `,
		fmt.Sprintf(`{"address": "0000:%02x:01.*", "product_id": "%s", `, portBus, portVF)} {
		specs[i] += ", " + rule + `"physical_network": "physnet1"}`
	}
	return specs
}

// The PFs and the VFs for ports, and the first bus of the PFs.
const (
	portPF, portVF = "10fb", "10ed"
	portBus        = 96
	portNICs       = 2
	vfsOfNIC       = 3
)

// portVF returns a VF for ports by the text of its address. ok is false if the machine has none.
func (m *simHost) portVF(address string) (vf pci.Device, ok bool) {
	for _, d := range m.made {
		if isPortVF(d) && d.Address.String() == address {
			return d, true
		}
	}
	return vf, false
}

// forgetConfigured takes VFs as not configured that no guest has: after the journal is lost, the agent does not know
// them any more. The next port that gets one replaces its configuration.
func (m *simHost) forgetConfigured() {
	had := map[pci.Address]bool{}
	for _, g := range m.guests {
		for _, at := range addresses(*g) {
			had[at] = true
		}
	}
	for at := range m.configured {
		if !had[at] {
			delete(m.configured, at)
		}
	}
}

func addresses(g hypervisor.Guest) (list []pci.Address) {
	for _, d := range g.Devices {
		list = append(list, d.ID.Address())
	}
	return list
}

// usualRules is how many configurations of a host there are beside the one that fits what is held.
const usualRules = 3

// nics returns the network interfaces of a machine: one for each PF that is plugged in.
func (m *simHost) nics() (list []facts.NIC) {
	for _, d := range m.devices() {
		if d.Type == pci.Physical {
			list = append(list, facts.NIC{Name: nicName(d.Address), Address: &d.Address, SpeedMbps: 10000})
		}
	}
	return list
}

func nicName(a pci.Address) string { return fmt.Sprintf("nic%d", a.Bus) }

// bandwidth returns what is configured about networks: a bridge on each machine, except with the second configuration,
// and the interfaces of PFs, of which the third configuration has one. The rates depend on the configuration.
func (m *simHost) bandwidth() []bandwidth.Agent {
	rate := bandwidth.Rate{Amount: 1000 * (m.rule + 1), Set: true}
	bridges := bandwidth.Agent{Type: bandwidth.OpenVSwitch, DefaultHypervisor: m.name, VNICTypes: []string{"normal"},
		Tunnelled: "rp_tunnelled", PacketRates: map[string]bandwidth.Rate{m.name: rate},
		Mappings: []bandwidth.Mapping{{Physnet: "physnet0", Device: "br-ex"}}, Bandwidths: map[string]bandwidth.Rates{}}
	if m.rule != 1 {
		bridges.Bandwidths["br-ex"] = bandwidth.Rates{Egress: rate, Ingress: rate}
	}
	nics := bandwidth.Agent{Type: bandwidth.NICSwitch, DefaultHypervisor: m.name, VNICTypes: []string{"direct"},
		Bandwidths: map[string]bandwidth.Rates{}}
	for _, d := range m.made {
		if d.Type == pci.Physical && (m.rule != 2 || len(nics.Mappings) == 0) {
			name := nicName(d.Address)
			nics.Mappings = append(nics.Mappings, bandwidth.Mapping{Physnet: "physnet1", Device: name})
			nics.Bandwidths[name] = bandwidth.Rates{Egress: rate}
		}
	}
	if len(nics.Mappings) == 0 {
		return []bandwidth.Agent{bridges}
	}
	return []bandwidth.Agent{bridges, nics}
}

// nicOf returns the bandwidth provider of the NIC of a VF.
func (m *simHost) nicOf(vf pci.Device) provider.ID {
	return bandwidth.Name{Hypervisor: m.name, Agent: bandwidth.NICSwitch, Device: nicName(*vf.Parent)}.ID()
}

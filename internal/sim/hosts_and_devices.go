package sim

import (
	"fmt"
	"slices"

	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// simHost is one host: its hardware, its hypervisor, its disk, and the agent while it runs. A copy of an agent's
// directory runs on a machine of its own that has the same host name.
type simHost struct {
	name  string     // of the host
	tag   string     // name, or for a machine with a copied directory another one
	host  *hostState // what compute has of the host
	root  provider.ID
	zone  int
	made  []pci.Device         // all that can be plugged in
	away  map[pci.Address]bool // what is not there now
	rules []pci.Rules          // what the operator may configure; the first is the usual one, the fourth fits what is held
	flags string               // of the devices, as text of a device_spec
	rule  int
	nodes []facts.Node
	once  bool // it has devices for one-time use

	portVFs    bool                   // it has VFs for ports
	configured map[pci.Address]string // ports for which its VFs are configured
	unplugged  map[pci.Address]bool   // VFs that were unplugged since they were configured

	guests  map[string]*hypervisor.Guest // the hypervisor's
	built   map[string]bool              // oracle: guests that no report of the agent has named as built
	content map[string]int               // of the disks of guests; each blank disk has another number
	late    map[string]bool              // oracle: guests that were built after the agent had given them up
	disk    disk
	fresh   bool   // no agent has served the host with this journal
	agent   *agent // nil while it does not run
	install string // machine-id of the installed system, also in a copy of it

	cut      bool // requests of its agent to compute and Placement fail
	frozen   bool // its agent does nothing, and its connections stay open
	zombie   bool // its guests exist although their allocations may have been removed: see event_checks.go
	orphaned bool // compute may have forgotten guests that exist: see event_checks.go
	refused  int  // configurations that its agent has refused one after the other
	stuck    bool // its agent has refused to start with any configuration
}

// devices are those that are plugged in.
func (m *simHost) devices() []pci.Device {
	return slices.DeleteFunc(slices.Clone(m.made), func(d pci.Device) bool { return m.away[d.Address] })
}

// machine is what the agent reads of the machine.
func (m *simHost) machine() facts.Facts {
	return facts.Facts{Devices: m.devices(), Nodes: m.nodes, NICs: m.nics(), NICsRead: true}
}

// kinds of machines, by turns.
const kinds = 6

// build makes a machine of a kind. ports: some kinds have VFs for ports.
func build(n, zone int, ports bool) *simHost {
	name := fmt.Sprintf("h%d", n)
	m := &simHost{name: name, tag: name, zone: zone, away: map[pci.Address]bool{},
		root:   provider.ID(fmt.Sprintf("00000000-0000-4000-8000-%012d", n)),
		guests: map[string]*hypervisor.Guest{}, built: map[string]bool{},
		late: map[string]bool{}, content: map[string]int{}, install: name,
		fresh: true}
	for node := range 2 {
		n := facts.Node{ID: node, Socket: node, MemoryMB: 16384}
		for cpu := range 8 {
			n.CPUs = append(n.CPUs, node*8+cpu)
		}
		m.nodes = append(m.nodes, n)
	}
	var specs [usualRules]string
	switch n % kinds {
	case 0, 1: // plain devices, live-migratable ones on one of the two
		specs = m.plain(zone, n%kinds == 1)
	case 2, 3: // PFs whose VFs are offered, live-migratable ones on one of the two
		specs = m.virtual(zone, n%kinds == 3)
	case 4: // PFs that are offered whole
		specs = m.physical(zone)
	case 5:
		specs = m.disks(zone)
	}
	if ports && hasPortVFs(n%kinds) {
		specs = m.addPortVFs(specs)
	}
	for _, text := range specs {
		rules, err := pci.ParseSpecs(text)
		if err != nil {
			panic(fmt.Sprintf("the simulation's own rules: %v", err))
		}
		m.rules = append(m.rules, rules)
	}
	return m
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

func (m *simHost) disks(zone int) [usualRules]string {
	m.once = true
	for i := range 3 {
		m.made = append(m.made, pci.Device{Address: at(32+i, 0), Vendor: "144d", Product: "a80a", Type: pci.Plain,
			NUMANode: i % 2})
	}
	m.flags = `"one_time_use": "yes", `
	return specs(zone, m.flags+`"vendor_id": "144d", "product_id": "a80a"`, "NVME")
}

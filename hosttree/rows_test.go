package hosttree

import (
	"fmt"
	"slices"
	"testing"

	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// node returns a provider below parent, which is the root; empty: it is a root. It has 8 of each class.
func node(id, name, parent string, classes ...resource.Class) *Provider {
	p := &Provider{Provider: provider.Provider{ID: provider.ID(id), Name: name, Parent: provider.ID(parent),
		Root: provider.ID(parent), Inventories: map[resource.Class]resource.Inventory{}}}
	if parent == "" {
		p.Root = p.ID
	}
	for _, class := range classes {
		p.Inventories[class] = resource.Whole(8)
	}
	return p
}

// Each form of a provider's name that Nova and Neutron write has its kind and address.
func TestKindOfProviders(t *testing.T) {
	for _, c := range []struct {
		name, host string
		kind       Kind
		address    string
	}{
		{"cmp1_0000:81:00.0", "cmp1", PCI, "0000:81:00.0"},
		{"cmp1_10000:E1:00.7", "cmp1", PCI, "10000:e1:00.7"},
		{"cmp1_pci_0000_84_00_0", "cmp1", Mediated, "0000:84:00.0"},
		{"cmp1_21010012", "cmp1", Slot, "21010012"},
		{"cmp1:NIC Switch agent", "cmp1", PacketRate, "NIC Switch agent"},
		{"cmp1:Open vSwitch agent:br-ex", "cmp1", Bandwidth, "Open vSwitch agent:br-ex"},
		{"cmp1.example.org:Open vSwitch agent:br-ex", "cmp1", Other, ""}, // of another host
		{"cmp1.example.org_0000:81:00.0", "cmp1.example.org", PCI, "0000:81:00.0"},
		{"cmp1_NUMA0", "cmp1", Other, ""},
		{"cmp1_pci_0000_84_00_9", "cmp1", Other, ""},
	} {
		if kind, address := KindOf(node("x", c.name, "r"), c.host); kind != c.kind || address != c.address {
			t.Errorf("%s: %s %q", c.name, kind, address)
		}
	}
	if kind, _ := KindOf(node("r", "cmp1_0000:81:00.0", ""), "cmp1"); kind != Host {
		t.Errorf("a root is a %s", kind)
	}
}

// The state of a device follows from its numbers.
func TestStates(t *testing.T) {
	for state, d := range map[string]Device{"available": {Capacity: 1}, "reserved": {Reserved: 1},
		"partly allocated": {Used: 1, Capacity: 2}, "allocated": {Used: 2, Capacity: 2},
		"over capacity": {Used: 2, Capacity: 1}} {
		if d.state() != state {
			t.Errorf("%s: %s", state, d.state())
		}
	}
}

// A device has a row for each class, with the consumers that hold something of the class.
func TestDevicesOfAProvider(t *testing.T) {
	nic := node("n", "cmp1:NIC Switch agent:eth1", "r", "NET_BW_IGR_KILOBIT_PER_SEC", "NET_BW_EGR_KILOBIT_PER_SEC")
	nic.Held = map[resource.ConsumerID]resource.Amounts{"b": {"NET_BW_EGR_KILOBIT_PER_SEC": 3},
		"a": {"NET_BW_EGR_KILOBIT_PER_SEC": 5}}
	var got []string
	for _, d := range Devices(nic, "cmp1") {
		got = append(got, fmt.Sprintf("%s %s %s %d/%d %s %v", d.Address, d.Kind, d.Class, d.Used, d.Capacity, d.State,
			d.Holders))
	}
	want := []string{
		"NIC Switch agent:eth1 bandwidth NET_BW_EGR_KILOBIT_PER_SEC 8/8 allocated [{a 5 {  }} {b 3 {  }}]",
		"NIC Switch agent:eth1 bandwidth NET_BW_IGR_KILOBIT_PER_SEC 0/8 available []"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if other := Devices(node("x", "cmp1_NUMA0", "r", "VCPU"), "cmp1"); len(other) > 0 {
		t.Errorf("%+v", other)
	}
}

// A host has the sums of its tree, and names what is over capacity in the order of the providers' names. A root that
// shares its inventory does not count as a host.
func TestRowOfAHost(t *testing.T) {
	root, gpu, numa := node("r", "cmp1", "", "VCPU", "MEMORY_MB"), node("g", "cmp1_0000:81:00.0", "r", "CUSTOM_GPU"),
		node("z", "cmp1_A", "r", "VCPU")
	gpu.Held = map[resource.ConsumerID]resource.Amounts{"s": {"CUSTOM_GPU": 9}}
	numa.Held = map[resource.ConsumerID]resource.Amounts{"s": {"VCPU": 10}}
	tree := []*Provider{numa, gpu, node("f", "cmp1_0000:82:00.0", "r", "CUSTOM_GPU"), root}
	row, ok := HostOf(tree)
	if want := []string{"cmp1_0000:81:00.0: 9 of 8 CUSTOM_GPU are allocated", "cmp1_A: 10 of 8 VCPU are allocated"}; !ok ||
		row.Host != "cmp1" || row.Devices != 2 || row.Held != 1 || row.Resources[0] != (Amount{"MEMORY_MB", 0, 8}) ||
		!slices.Equal(condition.Texts(row.Conditions), want) || tree[0] != numa {
		t.Errorf("%+v", row)
	}
	root.Traits = []resource.Trait{"MISC_SHARES_VIA_AGGREGATE"}
	if row, ok := HostOf(tree); ok {
		t.Errorf("%+v", row)
	}
	if row, ok := HostOf([]*Provider{gpu}); ok {
		t.Errorf("a tree without its root: %+v", row)
	}
}

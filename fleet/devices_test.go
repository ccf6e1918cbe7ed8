package fleet

import (
	"fmt"
	"slices"
	"testing"

	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// node returns a provider below parent, which is the root; empty: it is a root.
func node(id, name, parent string, classes ...resource.Class) Provider {
	p := Provider{Provider: provider.Provider{ID: provider.ID(id), Name: name, Parent: provider.ID(parent),
		Root: provider.ID(parent), Inventories: map[resource.Class]resource.Inventory{}}}
	if parent == "" {
		p.Root = p.ID
	}
	for _, class := range classes {
		p.Inventories[class] = resource.Whole(8)
	}
	return p
}

// A device names its holders: a server, a migration by its kind and server, and a consumer that compute does not know.
func TestHoldersOfDevices(t *testing.T) {
	gpu := node("g", "cmp1_0000:81:00.0", "r", "CUSTOM_GPU")
	gpu.Held = map[resource.ConsumerID]resource.Amounts{"s1": {"CUSTOM_GPU": 1}, "m1": {"CUSTOM_GPU": 2},
		"lost": {"CUSTOM_GPU": 5}, "other": {"VCPU": 1}}
	v := NewView(&Snapshot{Providers: []Provider{node("r", "cmp1", "", "VCPU"), gpu},
		Servers:    []Server{{ID: "s1", Name: "web", Project: "p", Flavor: Flavor{Name: "gpu"}}},
		Migrations: []Migration{{UUID: "m1", Server: "s1", Kind: "resize", Status: "finished"}}})
	all := v.Devices()
	if len(all) != 1 {
		t.Fatalf("%+v", all)
	}
	d := all[0]
	var got []string
	for _, h := range d.Holders {
		got = append(got, fmt.Sprintf("%s %d %s %s", h, h.Amount, h.Project, h.Flavor))
	}
	if want := []string{"unknown consumer lost 5  ", "resize of web 2 p gpu", "web 1 p gpu"}; !slices.Equal(got, want) ||
		d.Used != 8 || d.Capacity != 8 || d.State != "allocated" {
		t.Errorf("%q %+v", got, d)
	}
}

// Hosts of Placement and hypervisors of compute are compared.
func TestHostsOfTheFleet(t *testing.T) {
	over := node("r", "cmp1", "", "VCPU")
	over.Held = map[resource.ConsumerID]resource.Amounts{"s1": {"VCPU": 9}}
	shared := node("n", "nfs", "", "DISK_GB")
	shared.Traits = []resource.Trait{"MISC_SHARES_VIA_AGGREGATE"}
	v := NewView(&Snapshot{Providers: []Provider{over, node("q", "cmp2", ""), node("z", "cmp3", ""), shared,
		node("g", "cmp1_0000:81:00.0", "r", "CUSTOM_GPU")},
		Hypervisors: []Hypervisor{{"r", "cmp1", "c1"}, {"other", "cmp3", "c3"}, {"y", "cmp4", "c4"}},
		Services: []Service{{Host: "c1", State: "up", Status: "disabled", Reason: "repair", Zone: "nova"},
			{Host: "c3", State: "down", ForcedDown: true}},
		Servers: []Server{{ID: "s1", Node: "cmp1"}}})
	var got []string
	for _, h := range v.Hosts() {
		got = append(got, fmt.Sprintf("%s|%s|%d|%d|%q", h.Host, h.State, h.Servers, h.Devices, condition.Texts(h.Conditions)))
	}
	want := []string{
		`cmp1|up, disabled|1|1|["disabled: repair" "cmp1: 9 of 8 VCPU are allocated"]`,
		`cmp2|no service|0|0|["compute has no hypervisor with this name"]`,
		`cmp3|down, forced|0|0|["compute's hypervisor has the id other"]`,
		`cmp4|no service|0|0|["it has no provider in Placement"]`}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

package survey

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// What a guest holds is never lost from the tree.
func TestHeld(t *testing.T) {
	gone := func(f Facts, addresses ...pci.Address) Facts {
		f.Devices = slices.DeleteFunc(f.Devices, func(d pci.Device) bool { return slices.Contains(addresses, d.Address) })
		return f
	}
	held := func(f Facts, addresses ...pci.Address) Facts {
		for _, a := range addresses {
			f.Held = append(f.Held, f.claim(t, a))
		}
		return f
	}
	note := func(address, why, name, class string) string {
		return address + ": is held by server s1, though " + why + "; " + name + " keeps " + class +
			" until the server is gone"
	}
	const vanished, unruled, unreadable = "it is no longer on the host", "device_spec no longer offers it to aliases",
		"the host cannot read it now"

	f := held(sampleFacts(t, `{"product_id":"1515","traits":"a"}`), vf1)
	two := "└─ cmp1_0000:81:00.0  CUSTOM_PCI_8086_1515 0/2  [COMPUTE_MANAGED_PCI_DEVICE CUSTOM_A OWNER_NOVA]"
	one := strings.Replace(two, "0/2", "0/1", 1)
	expect(t, f, rootLine, two)
	expect(t, gone(f, vf1), rootLine, two, note("0000:81:00.1", vanished, "cmp1_0000:81:00.0", "CUSTOM_PCI_8086_1515"))
	f = held(sampleFacts(t, `{"product_id":"1515","traits":"a"}`), vf1)
	expect(t, gone(f, vf1, vf2), rootLine, one, note("0000:81:00.1", vanished, "cmp1_0000:81:00.0",
		"CUSTOM_PCI_8086_1515"))
	// Without rules the held VF stays, and the free one is removed.
	f.Rules = nil
	f.Devices = devices()
	expect(t, f, rootLine, one, note("0000:81:00.1", unruled, "cmp1_0000:81:00.0", "CUSTOM_PCI_8086_1515"))
	// The rule is now for a network.
	f.Rules = sampleFacts(t, `{"product_id":"1515","physical_network":"p"}`).Rules
	expect(t, f, rootLine, one, note("0000:81:00.1", unruled, "cmp1_0000:81:00.0", "CUSTOM_PCI_8086_1515"))

	// A plain device.
	f = held(sampleFacts(t, `{"address":"0000:83:00.0","resource_class":"gpu"}`), gpu)
	expect(t, gone(f, gpu), rootLine, "└─ cmp1_0000:83:00.0  CUSTOM_GPU 0/1  [COMPUTE_MANAGED_PCI_DEVICE OWNER_NOVA]",
		note("0000:83:00.0", vanished, "cmp1_0000:83:00.0", "CUSTOM_GPU"))

	// A journal with only address and provider: the class comes from Placement.
	f = sampleFacts(t)
	f.Held = []device.Claim{{Offer: device.Offer{Offered: pci.Offered{Device: pci.Device{Address: vf1},
		Provider: "known", Holder: "s1"}}}}
	f.Actual = provider.Tree{Providers: []provider.Provider{{ID: root, Name: "cmp1"},
		{ID: "known", Name: "cmp1_0000:81:00.0", Parent: root,
			Traits:      []resource.Trait{"CUSTOM_A"},
			Inventories: map[resource.Class]resource.Inventory{"CUSTOM_VF": resource.Whole(2)}}}}
	expect(t, f, rootLine, "└─ cmp1_0000:81:00.0  CUSTOM_VF 0/1  [COMPUTE_MANAGED_PCI_DEVICE CUSTOM_A OWNER_NOVA]",
		note("0000:81:00.1", unruled, "cmp1_0000:81:00.0", "CUSTOM_VF"))
	f.Actual.Providers[1].Inventories["CUSTOM_OTHER"] = resource.Whole(3)
	expect(t, f, rootLine, "└─ cmp1_0000:81:00.0  CUSTOM_OTHER 0/3  CUSTOM_VF 0/2  [COMPUTE_MANAGED_PCI_DEVICE "+
		"CUSTOM_A OWNER_NOVA]",
		note("0000:81:00.1", unruled, "cmp1_0000:81:00.0", "all its inventories"))
}

// As in Nova, a changed resource_class of an allocated device refuses the start. The same holds for a change between a
// PF and its VFs.
func TestHeldIsNotReconfigured(t *testing.T) {
	const vfs, pfs = `{"product_id":"1515"}`, `{"address":"0000:81:00.0","product_id":"1528"}`
	hold := func(address pci.Address, before string, now ...string) Facts {
		f := sampleFacts(t, before)
		c := f.claim(t, address)
		f = sampleFacts(t, now...)
		f.Held = []device.Claim{c}
		return f
	}
	classChanged := hold(gpu, `{"vendor_id":"10de"}`, `{"vendor_id":"10de","resource_class":"gpu"}`)
	journalled := classChanged
	journalled.Held = []device.Claim{{Offer: device.Offer{Offered: pci.Offered{Device: pci.Device{Address: gpu},
		Provider: "known", ResourceClass: "CUSTOM_GPU", Holder: "s1"}}}}
	journalled.Actual = provider.Tree{Providers: []provider.Provider{{ID: "known", Name: "cmp1_0000:83:00.0",
		Inventories: map[resource.Class]resource.Inventory{
			"CUSTOM_PCI_10DE_20B0": resource.Whole(1)}}}}
	for name, c := range map[string]struct {
		f     Facts
		parts []string
	}{
		"class": {classChanged, []string{"0000:83:00.0", "nova.conf:1", "CUSTOM_GPU", "server s1",
			"CUSTOM_PCI_10DE_20B0"}},
		"class, as Placement has": {journalled, []string{"0000:83:00.0", "CUSTOM_GPU", "server s1", "CUSTOM_PCI_10DE_20B0"}},
		"PF to VFs":               {hold(pf81, pfs, vfs), []string{"0000:81:00.1", "server s1 holds its PF 0000:81:00.0"}},
		"VFs to PF":               {hold(vf2, vfs, pfs), []string{"PF 0000:81:00.0", "server s1 holds its VF 0000:81:00.2"}},
	} {
		_, _, err := Desired(c.f)
		for _, part := range c.parts {
			if !fault.Is(err, fault.Invalid) || !strings.Contains(fault.TextOf(err), part) {
				t.Errorf("%s: %v does not contain %q", name, err, part)
			}
		}
	}
	// A device for network ports does not conflict in Placement.
	note := "is held by server s1, though device_spec no longer offers it to aliases; cmp1_0000:81:00.0 keeps"
	for _, f := range []Facts{hold(pf81, pfs, `{"product_id":"1515","physical_network":"p"}`),
		hold(vf2, vfs, `{"product_id":"1528","physical_network":"p"}`)} {
		if got := picture(f); !strings.Contains(got, note) {
			t.Error(got)
		}
	}
	// Traits of a held device may change.
	expect(t, hold(gpu, `{"address":"0000:83:00.0"}`, `{"address":"0000:83:00.0","traits":"new"}`), rootLine,
		"└─ cmp1_0000:83:00.0  CUSTOM_PCI_10DE_20B0 0/1  [COMPUTE_MANAGED_PCI_DEVICE CUSTOM_NEW OWNER_NOVA]")
}

// A device that vanished while held stays in the tree; a claim without a class gets Placement's class.
func TestHeldDevicesStayInTree(t *testing.T) {
	f := sampleFacts(t, `{"product_id":"1515"}`)
	one, two := f.claim(t, vf1), f.claim(t, vf2)
	for name, c := range map[string]struct {
		devices []pci.Device
		held    []device.Claim
		actual  []provider.Provider
		want    int
		notes   int // one for each device that the total is raised by
	}{
		"nothing is held":                   {nil, nil, nil, 0, 0},
		"one held and removed, one present": {[]pci.Device{f.Devices[1], f.Devices[3]}, []device.Claim{one}, nil, 2, 1},
		"two held, none present":            {nil, []device.Claim{one, two}, nil, 2, 2},
		"one held, both present":            {f.Devices, []device.Claim{one}, nil, 2, 0},
		"a claim without a class": {nil, []device.Claim{{Offer: device.Offer{Name: one.Name,
			Offered: pci.Offered{Device: one.Device, Provider: one.Provider, Holder: "s1"}}}},
			[]provider.Provider{{ID: one.Provider, Name: one.Name, Parent: root, Root: root,
				Inventories: map[resource.Class]resource.Inventory{"CUSTOM_PCI_8086_1515": resource.Whole(1)}}}, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := f
			f.Devices, f.Held = c.devices, c.held
			f.Actual.Providers = append(f.Actual.Providers, c.actual...)
			tree, notes, err := Desired(f)
			p, _ := tree.ByName(one.Name)
			if err != nil || p.Inventories["CUSTOM_PCI_8086_1515"].Total != c.want ||
				p.Inventories["CUSTOM_PCI_8086_1515"].MaxUnit != c.want || len(notes) != c.notes {
				t.Errorf("%+v %v %v", p, notes, err)
			}
		})
	}
}

// A device for one-time use is reserved as soon as it is held.
func TestOneTimeUse(t *testing.T) {
	f := sampleFacts(t, `{"address":"0000:82:00.0","one_time_use":true}`)
	line := "└─ cmp1_0000:82:00.0  CUSTOM_PCI_8086_1528 0/%s  [COMPUTE_MANAGED_PCI_DEVICE HW_PCI_ONE_TIME_USE OWNER_NOVA]"
	expect(t, f, rootLine, fmt.Sprintf(line, "1"))
	f.Held = []device.Claim{f.claim(t, pf82)}
	expect(t, f, rootLine, fmt.Sprintf(line, "1")) // the guest may not have started
	f.Spent = map[device.ID]bool{device.PCI(pf82): true}
	expect(t, f, rootLine, fmt.Sprintf(line, "0 (1 reserved)"))
	f.Held = nil
	expect(t, f, rootLine, fmt.Sprintf(line, "0 (1 reserved)"))
}

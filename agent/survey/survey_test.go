package survey

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/sysfs"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

const root provider.ID = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"

// devices returns the devices of the test host: a PF 81:00.0 with VFs .1 and .2, a PF 82:00.0 without VFs, plain
// devices 83:00.0 and 10000:0a:00.0, and a bridge.
func devices() []pci.Device {
	pf := pci.Address{Bus: 0x81}
	vf := func(function uint8) pci.Device {
		return pci.Device{Address: pci.Address{Bus: 0x81, Func: function}, Vendor: "8086", Product: "1515", Type: pci.Virtual,
			Parent: &pf, Class: 0x020000}
	}
	return []pci.Device{
		{Address: pci.Address{Bus: 0x80}, Vendor: "8086", Product: "0b00", Type: pci.Plain, Class: 0x060400},
		{Address: pf, Vendor: "8086", Product: "1528", Type: pci.Physical, Class: 0x020000, TotalVFs: 2, NumVFs: 2,
			Net: []string{"ens1"}},
		vf(1), vf(2),
		{Address: pci.Address{Bus: 0x82}, Vendor: "8086", Product: "1528", Type: pci.Physical, Class: 0x020000, TotalVFs: 2},
		{Address: pci.Address{Bus: 0x83}, Vendor: "10de", Product: "20b0", Type: pci.Plain, Class: 0x030200},
		{Address: pci.Address{Domain: 0x10000, Bus: 0x0a}, Vendor: "10de", Product: "20b0", Type: pci.Plain, Class: 0x030200},
	}
}

// facts returns the test host with these rules; each has its own line number.
func facts(t *testing.T, rules ...string) Facts {
	t.Helper()
	f := Facts{Host: "cmp1", Root: root, Report: true, Devices: devices(), VCPU: RootInventory{Total: 8, Ratio: 4},
		MemoryMB: RootInventory{Total: 1024, Reserved: 512}}
	for i, text := range rules {
		list, err := pci.ParseSpecs(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list {
			r.At = fmt.Sprintf("nova.conf:%d", i+1)
			f.Rules = append(f.Rules, r)
		}
	}
	return f
}

// claim returns the claim of an offered device, as in the device set.
func (f Facts) claim(t *testing.T, address pci.Address) device.Claim {
	t.Helper()
	for _, o := range Offers(f) {
		if o.Device.Address == address {
			return device.Claim{Offer: o, Holder: "s1", Request: "r1", State: device.Allocated}
		}
	}
	t.Fatalf("%s is not offered", address)
	return device.Claim{}
}

// picture returns the tree and the notes, or the fault, as text.
func picture(f Facts) string {
	tree, notes, err := Desired(f)
	if err != nil {
		return fault.TextOf(err)
	}
	var b strings.Builder
	if err := tree.Print(&b, nil); err != nil {
		return err.Error()
	}
	for _, n := range notes {
		fmt.Fprintln(&b, n)
	}
	return b.String()
}

// expect compares the picture with lines.
func expect(t *testing.T, f Facts, lines ...string) {
	t.Helper()
	if got, want := strings.TrimSpace(picture(f)), strings.Join(lines, "\n"); got != want {
		t.Errorf("\n%s\nwant\n%s", got, want)
	}
}

const (
	rootLine = "cmp1  MEMORY_MB 0/512 (512 reserved)  VCPU 0/32  [OWNER_NOVA]"
)

var (
	vf1  = pci.Address{Bus: 0x81, Func: 1}
	vf2  = pci.Address{Bus: 0x81, Func: 2}
	pf81 = pci.Address{Bus: 0x81}
	pf82 = pci.Address{Bus: 0x82}
	gpu  = pci.Address{Bus: 0x83}
)

func TestDesired(t *testing.T) {
	for name, c := range map[string]struct {
		rules []string
		want  []string
	}{
		"nothing is offered without rules": {nil, []string{rootLine}},
		// A plain device or PF is a provider named <hypervisor_hostname>_<pci_address> with an inventory of 1 of the class
		// CUSTOM_PCI_<vendor_id>_<product_id>.
		"plain devices, one in a domain of five digits": {[]string{`{"vendor_id":"10de"}`}, []string{rootLine,
			"├─ cmp1_0000:83:00.0  CUSTOM_PCI_10DE_20B0 0/1  [COMPUTE_MANAGED_PCI_DEVICE OWNER_NOVA]",
			"└─ cmp1_10000:0A:00.0  CUSTOM_PCI_10DE_20B0 0/1  [COMPUTE_MANAGED_PCI_DEVICE OWNER_NOVA]"}},
		// The provider of a PF exists also if no rule matches the PF; its inventory is the number of matching VFs.
		"VFs are counted on their PF": {[]string{`{"product_id":"1515"}`}, []string{rootLine,
			"└─ cmp1_0000:81:00.0  CUSTOM_PCI_8086_1515 0/2  [COMPUTE_MANAGED_PCI_DEVICE OWNER_NOVA]"}},
		"only those that match": {[]string{`{"address":"0000:81:00.2"}`}, []string{rootLine,
			"└─ cmp1_0000:81:00.0  CUSTOM_PCI_8086_1515 0/1  [COMPUTE_MANAGED_PCI_DEVICE OWNER_NOVA]"}},
		"a PF by its address and product": {[]string{`{"address":"0000:81:00.0","product_id":"1528"}`}, []string{rootLine,
			"└─ cmp1_0000:81:00.0  CUSTOM_PCI_8086_1528 0/1  [COMPUTE_MANAGED_PCI_DEVICE OWNER_NOVA]"}},
		// The class and the traits come from the matching rule.
		"class and traits": {[]string{`{"address":"0000:83:00.0","resource_class":"gpu","traits":"b,a","one_time_use":true}`,
			`{"product_id":"1515","live_migratable":"yes"}`}, []string{rootLine,
			"├─ cmp1_0000:81:00.0  CUSTOM_PCI_8086_1515 0/2  [COMPUTE_MANAGED_PCI_DEVICE HW_PCI_LIVE_MIGRATABLE OWNER_NOVA]",
			"└─ cmp1_0000:83:00.0  CUSTOM_GPU 0/1  [COMPUTE_MANAGED_PCI_DEVICE CUSTOM_A CUSTOM_B HW_PCI_ONE_TIME_USE " +
				"OWNER_NOVA]"}},
		// Devices with a physical_network are not reported.
		"network devices": {[]string{`{"product_id":"1515","physical_network":"p"}`,
			`{"product_id":"1528","physical_network":null}`}, []string{rootLine}},
		"the first rule counts": {[]string{`{"vendor_id":"10de","physical_network":"p"}`, `{}`}, []string{
			"the PF 0000:81:00.0 (device_spec at nova.conf:2, {}) and of its VFs 0000:81:00.1, 0000:81:00.2 (device_spec at " +
				"nova.conf:2, {}) are both offered, but only one kind can be; narrow the rules, by product_id or by the " +
				"functions in the address"}},
		"a bridge is never offered": {[]string{`{"address":"80:00.0"}`, `{"address":"0000:80:00.0"}`}, []string{rootLine}},
		"a bridge by its own address": {[]string{`{"address":"0000:80:00.0"}`}, []string{rootLine,
			`0000:80:00.0: is a bridge and not offered, though ` +
				`device_spec at nova.conf:1, {"address": "0000:80:00.0"} names it`}},
	} {
		t.Run(name, func(t *testing.T) { expect(t, facts(t, c.rules...), c.want...) })
	}
}

// TestDesiredRefuses tests that a configuration which cannot be reported is rejected with the addresses and rules.
func TestDesiredRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		rules []string
		parts []string
	}{
		// A PF and its VFs cannot both be reported.
		"PF and VFs by one rule": {[]string{`{"address":"0000:81:00.0"}`},
			[]string{"PF 0000:81:00.0", "VFs 0000:81:00.1, 0000:81:00.2", "nova.conf:1", "product_id"}},
		"PF and one VF": {[]string{`{"product_id":"1528"}`, `{"address":"0000:81:00.2"}`},
			[]string{"PF 0000:81:00.0", "nova.conf:1", "VFs 0000:81:00.2", "nova.conf:2"}},
		"a PF and VFs of networks": {[]string{`{"product_id":"1528"}`, `{"product_id":"1515","physical_network":"p"}`},
			[]string{"PF 0000:81:00.0", `"physical_network": "p"`}},
		// The VFs of a PF have one class.
		"classes": {[]string{`{"address":"0000:81:00.1","resource_class":"vf1"}`,
			`{"address":"0000:81:00.2","resource_class":"vf2"}`},
			[]string{"0000:81:00.2", "nova.conf:2", "CUSTOM_VF2", "0000:81:00.1", "nova.conf:1", "CUSTOM_VF1", "one class"}},
		// The VFs of a PF have the same traits.
		"traits": {[]string{`{"address":"0000:81:00.1","traits":"foo"}`, `{"product_id":"1515","traits":"bar"}`},
			[]string{"0000:81:00.1", "[CUSTOM_FOO]", "0000:81:00.2", "[CUSTOM_BAR]", "same traits"}},
		"live_migratable": {[]string{`{"address":"0000:81:00.1","live_migratable":true}`, `{"product_id":"1515"}`},
			[]string{"HW_PCI_LIVE_MIGRATABLE", "[]"}},
		// devname cannot be used with report_in_placement.
		"devname": {[]string{`{"vendor_id":"10de"}`, `{"devname":"nowhere"}`},
			[]string{`devname "nowhere"`, "nova.conf:2", "address"}},
		"one_time_use": {[]string{`{"product_id":"1515","one_time_use":true}`},
			[]string{"0000:81:00.1", "nova.conf:1", "one_time_use"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := facts(t, c.rules...)
			tree, _, err := Desired(f)
			if !fault.Is(err, fault.Invalid) || len(tree.Providers) > 0 {
				t.Fatalf("accepted: %v %v", tree, err)
			}
			for _, part := range c.parts {
				if !strings.Contains(fault.TextOf(err), part) {
					t.Errorf("%q does not contain %q", fault.TextOf(err), part)
				}
			}
		})
	}
}

// Traits in another order are the same traits, and devices of different PFs may differ.
func TestDesiredAccepts(t *testing.T) {
	f := facts(t, `{"address":"0000:81:00.1","traits":"a,b"}`, `{"product_id":"1515","traits":"b,a"}`,
		`{"address":"0000:82:00.0","traits":"c","resource_class":"x"}`)
	expect(t, f, rootLine,
		"├─ cmp1_0000:81:00.0  CUSTOM_PCI_8086_1515 0/2  [COMPUTE_MANAGED_PCI_DEVICE CUSTOM_A CUSTOM_B OWNER_NOVA]",
		"└─ cmp1_0000:82:00.0  CUSTOM_X 0/1  [COMPUTE_MANAGED_PCI_DEVICE CUSTOM_C OWNER_NOVA]")
}

// Without report_in_placement there is the root alone, and what only reporting refuses is allowed.
func TestDesiredWithoutReport(t *testing.T) {
	f := facts(t, `{"devname":"ens1"}`, `{}`)
	f.Report = false
	expect(t, f, rootLine)
	if offers := Offers(f); len(offers) != 6 || offers[0].Name != "" || offers[0].Provider != "" {
		t.Errorf("%+v", offers)
	}
	f = facts(t, `{"address":"0000:83:00.0","one_time_use":"yes"}`)
	f.Report = false
	if got := picture(f); !strings.Contains(got, "one_time_use, which needs [pci] report_in_placement") {
		t.Error(got)
	}
}

func TestRootInventories(t *testing.T) {
	f := facts(t)
	f.DiskGB, f.Traits = RootInventory{Total: 100, Reserved: 1, Ratio: 1.5},
		[]resource.Trait{"HW_CPU_X86_AVX", "COMPUTE_NODE"}
	tree, _, err := Desired(f)
	if err != nil {
		t.Fatal(err)
	}
	want := provider.Provider{ID: root, Root: root, Name: "cmp1",
		Traits: []resource.Trait{"COMPUTE_NODE", "HW_CPU_X86_AVX", "OWNER_NOVA"},
		Inventories: map[resource.Class]resource.Inventory{
			"VCPU":      {Total: 8, MinUnit: 1, MaxUnit: 8, StepSize: 1, AllocationRatio: 4},
			"MEMORY_MB": {Total: 1024, Reserved: 512, MinUnit: 1, MaxUnit: 1024, StepSize: 1, AllocationRatio: 1},
			"DISK_GB":   {Total: 100, Reserved: 1, MinUnit: 1, MaxUnit: 100, StepSize: 1, AllocationRatio: 1.5},
		}}
	if !reflect.DeepEqual(tree.Providers, []provider.Provider{want}) {
		t.Errorf("%+v", tree.Providers)
	}
}

// A provider is a child of the root with the number of its devices as total, and with Placement's ID or one derived
// from its name.
func TestProvidersOfDevices(t *testing.T) {
	f := facts(t, `{"product_id":"1515"}`)
	id := ProviderID(root, "cmp1_0000:81:00.0")
	want := provider.Provider{ID: id, Name: "cmp1_0000:81:00.0", Parent: root, Root: root,
		Traits: []resource.Trait{ManagedPCI, OwnerNova}, Inventories: map[resource.Class]resource.Inventory{
			"CUSTOM_PCI_8086_1515": {Total: 2, MinUnit: 1, MaxUnit: 2, StepSize: 1, AllocationRatio: 1}}}
	check := func(want provider.Provider) {
		t.Helper()
		tree, _, err := Desired(f)
		if got, _ := tree.ByName(want.Name); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v %v\nwant %+v", got, err, want)
		}
		for _, o := range Offers(f) {
			if o.Provider != want.ID || o.Name != want.Name || o.Class != "CUSTOM_PCI_8086_1515" {
				t.Errorf("%+v", o)
			}
		}
	}
	check(want)
	f.Actual = provider.Tree{Providers: []provider.Provider{{ID: root, Name: "cmp1"},
		{ID: "known", Name: "cmp1_0000:81:00.0", Parent: root}}}
	want.ID = "known"
	check(want)
}

func TestProviderIDIsVersion5(t *testing.T) {
	if got := ProviderID(root, "python.org"); got != "886313e1-3b8a-5372-9b90-0c9aee199e5d" {
		t.Error(got)
	}
	if ProviderID("a", "n") == ProviderID("b", "n") || ProviderID(root, "a") == ProviderID(root, "b") {
		t.Error("two providers have one ID")
	}
}

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

	f := held(facts(t, `{"product_id":"1515","traits":"a"}`), vf1)
	two := "└─ cmp1_0000:81:00.0  CUSTOM_PCI_8086_1515 0/2  [COMPUTE_MANAGED_PCI_DEVICE CUSTOM_A OWNER_NOVA]"
	one := strings.Replace(two, "0/2", "0/1", 1)
	expect(t, f, rootLine, two)
	expect(t, gone(f, vf1), rootLine, two, note("0000:81:00.1", vanished, "cmp1_0000:81:00.0", "CUSTOM_PCI_8086_1515"))
	f = held(facts(t, `{"product_id":"1515","traits":"a"}`), vf1)
	expect(t, gone(f, vf1, vf2), rootLine, one, note("0000:81:00.1", vanished, "cmp1_0000:81:00.0",
		"CUSTOM_PCI_8086_1515"))
	// Without rules the held VF stays, and the free one is removed.
	f.Rules = nil
	f.Devices = devices()
	expect(t, f, rootLine, one, note("0000:81:00.1", unruled, "cmp1_0000:81:00.0", "CUSTOM_PCI_8086_1515"))
	// The rule is now for a network.
	f.Rules = facts(t, `{"product_id":"1515","physical_network":"p"}`).Rules
	expect(t, f, rootLine, one, note("0000:81:00.1", unruled, "cmp1_0000:81:00.0", "CUSTOM_PCI_8086_1515"))

	// A plain device.
	f = held(facts(t, `{"address":"0000:83:00.0","resource_class":"gpu"}`), gpu)
	expect(t, gone(f, gpu), rootLine, "└─ cmp1_0000:83:00.0  CUSTOM_GPU 0/1  [COMPUTE_MANAGED_PCI_DEVICE OWNER_NOVA]",
		note("0000:83:00.0", vanished, "cmp1_0000:83:00.0", "CUSTOM_GPU"))

	// A journal with only address and provider: the class comes from Placement.
	f = facts(t)
	f.Held = []device.Claim{{Offer: device.Offer{Device: pci.Device{Address: vf1}, Provider: "known"}, Holder: "s1"}}
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
		f := facts(t, before)
		c := f.claim(t, address)
		f = facts(t, now...)
		f.Held = []device.Claim{c}
		return f
	}
	classChanged := hold(gpu, `{"vendor_id":"10de"}`, `{"vendor_id":"10de","resource_class":"gpu"}`)
	journalled := classChanged
	journalled.Held = []device.Claim{{Offer: device.Offer{Device: pci.Device{Address: gpu}, Provider: "known",
		Class: "CUSTOM_GPU"}, Holder: "s1"}}
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

// A device for one-time use is reserved as soon as it is held.
func TestOneTimeUse(t *testing.T) {
	f := facts(t, `{"address":"0000:82:00.0","one_time_use":true}`)
	line := "└─ cmp1_0000:82:00.0  CUSTOM_PCI_8086_1528 0/%s  [COMPUTE_MANAGED_PCI_DEVICE HW_PCI_ONE_TIME_USE OWNER_NOVA]"
	expect(t, f, rootLine, fmt.Sprintf(line, "1"))
	f.Held = []device.Claim{f.claim(t, pf82)}
	expect(t, f, rootLine, fmt.Sprintf(line, "1")) // the guest may not have started
	f.Spent = map[device.ID]bool{device.PCI(pf82): true}
	expect(t, f, rootLine, fmt.Sprintf(line, "0 (1 reserved)"))
	f.Held = nil
	expect(t, f, rootLine, fmt.Sprintf(line, "0 (1 reserved)"))
}

// TestCheckSwitch tests that reporting cannot be switched off once a device is reported.
func TestCheckSwitch(t *testing.T) {
	f := facts(t, `{"product_id":"1515"}`)
	var err error
	if f.Actual, _, err = Desired(f); err != nil {
		t.Fatal(err)
	}
	if err := CheckSwitch(f); err != nil {
		t.Error(err)
	}
	f.Report = false
	if err := CheckSwitch(f); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "cmp1_0000:81:00.0") {
		t.Error(err)
	}
	f.Actual.Providers = f.Actual.Providers[:1]
	if err := CheckSwitch(f); err != nil {
		t.Error(err)
	}
}

// A tree that was reported is desired unchanged, and the order in which devices are found does not matter.
func TestDesiredIsStable(t *testing.T) {
	f := facts(t, `{"product_id":"1515"}`, `{"vendor_id":"10de"}`)
	f.Held = []device.Claim{f.claim(t, vf1), f.claim(t, gpu)}
	want, _, err := Desired(f)
	if err != nil || len(want.Providers) != 4 {
		t.Fatal(want, err)
	}
	f.Actual = want
	if again, _, err := Desired(f); err != nil || !reflect.DeepEqual(again, want) {
		t.Errorf("%v %v", again, err)
	}
	slices.Reverse(f.Devices)
	slices.Reverse(f.Held)
	if again, _, err := Desired(f); err != nil || !reflect.DeepEqual(again, want) {
		t.Errorf("%v %v", again, err)
	}
}

// The captured machine has two PFs whose four VFs each are offered. All functions have one product, so the rules
// select by address.
func TestSample(t *testing.T) {
	fsys, err := sysfs.Sample()
	if err != nil {
		t.Fatal(err)
	}
	machine, err := sysfs.Read(fsys)
	if err != nil {
		t.Fatal(err)
	}
	f := facts(t,
		`{"vendor_id":"1b36","product_id":"0010","address":{"bus":"11|21","function":"[1-4]"},"resource_class":"passthrough"}`)
	f.Devices = machine.Devices
	expect(t, f, rootLine,
		"├─ cmp1_0000:11:00.0  CUSTOM_PASSTHROUGH 0/4  [COMPUTE_MANAGED_PCI_DEVICE OWNER_NOVA]",
		"└─ cmp1_0000:21:00.0  CUSTOM_PASSTHROUGH 0/4  [COMPUTE_MANAGED_PCI_DEVICE OWNER_NOVA]")
	if offers := Offers(f); len(offers) != 8 || offers[7].Device.NUMANode != 1 || offers[7].Name != "cmp1_0000:21:00.0" {
		t.Errorf("%v", offers)
	}
	f.Rules = facts(t, `{"vendor_id":"1b36","product_id":"0010"}`).Rules
	if got := picture(f); !strings.Contains(got, "functions in the address") {
		t.Error(got)
	}
}

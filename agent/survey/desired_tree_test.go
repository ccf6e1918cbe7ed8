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
		t.Run(name, func(t *testing.T) { expect(t, sampleFacts(t, c.rules...), c.want...) })
	}
}

// Traits in another order are the same traits, and devices of different PFs may differ.
func TestDesiredAccepts(t *testing.T) {
	f := sampleFacts(t, `{"address":"0000:81:00.1","traits":"a,b"}`, `{"product_id":"1515","traits":"b,a"}`,
		`{"address":"0000:82:00.0","traits":"c","resource_class":"x"}`)
	expect(t, f, rootLine,
		"├─ cmp1_0000:81:00.0  CUSTOM_PCI_8086_1515 0/2  [COMPUTE_MANAGED_PCI_DEVICE CUSTOM_A CUSTOM_B OWNER_NOVA]",
		"└─ cmp1_0000:82:00.0  CUSTOM_X 0/1  [COMPUTE_MANAGED_PCI_DEVICE CUSTOM_C OWNER_NOVA]")
}

// Without report_in_placement there is the root alone, and what only reporting refuses is allowed.
func TestDesiredWithoutReport(t *testing.T) {
	f := sampleFacts(t, `{"devname":"ens1"}`, `{}`)
	f.Report = false
	expect(t, f, rootLine)
	if offers := Offers(f); len(offers) != 6 || offers[0].Name != "" || offers[0].Provider != "" {
		t.Errorf("%+v", offers)
	}
	f = sampleFacts(t, `{"address":"0000:83:00.0","one_time_use":"yes"}`)
	f.Report = false
	if got := picture(f); !strings.Contains(got, "one_time_use, which needs [pci] report_in_placement") {
		t.Error(got)
	}
}

// TestCheckSwitch tests that reporting cannot be switched off once a device is reported.
func TestCheckSwitch(t *testing.T) {
	f := sampleFacts(t, `{"product_id":"1515"}`)
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
	f := sampleFacts(t, `{"product_id":"1515"}`, `{"vendor_id":"10de"}`)
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
	f := sampleFacts(t,
		`{"vendor_id":"1b36","product_id":"0010","address":{"bus":"11|21","function":"[1-4]"},`+
			`"resource_class":"passthrough"}`)
	f.Devices = machine.Devices
	expect(t, f, rootLine,
		"├─ cmp1_0000:11:00.0  CUSTOM_PASSTHROUGH 0/4  [COMPUTE_MANAGED_PCI_DEVICE OWNER_NOVA]",
		"└─ cmp1_0000:21:00.0  CUSTOM_PASSTHROUGH 0/4  [COMPUTE_MANAGED_PCI_DEVICE OWNER_NOVA]")
	if offers := Offers(f); len(offers) != 8 || offers[7].Device.NUMANode != 1 || offers[7].Name != "cmp1_0000:21:00.0" {
		t.Errorf("%v", offers)
	}
	f.Rules = sampleFacts(t, `{"vendor_id":"1b36","product_id":"0010"}`).Rules
	if got := picture(f); !strings.Contains(got, "functions in the address") {
		t.Error(got)
	}
}

// TestReportedDevicesAndRefusals tests the reported tree of a host, or the error.
func TestReportedDevicesAndRefusals(t *testing.T) {
	const marks = "COMPUTE_MANAGED_PCI_DEVICE"
	for name, c := range map[string]struct {
		rules []string
		want  []string // of the tree, one provider a line; or parts of the error
	}{
		"rules with traits, a PF for one-time use, VFs of another": {[]string{
			`{"address":"0000:83:00.0","traits":"HW_GPU_API_VULKAN,CUSTOM_GPU,purple"}`,
			`{"address":"0000:82:00.0","product_id":"1528","traits":"pf-white","one_time_use":true}`,
			`{"product_id":"1515","address":"*:81:00.*","traits":"vf-red"}`}, []string{
			"cmp1_0000:81:00.0  CUSTOM_PCI_8086_1515 0/2  [" + marks + " CUSTOM_VF_RED OWNER_NOVA]",
			"cmp1_0000:82:00.0  CUSTOM_PCI_8086_1528 0/1  [" + marks + " CUSTOM_PF_WHITE HW_PCI_ONE_TIME_USE OWNER_NOVA]",
			"cmp1_0000:83:00.0  CUSTOM_PCI_10DE_20B0 0/1  [" + marks +
				" CUSTOM_GPU CUSTOM_PURPLE HW_GPU_API_VULKAN OWNER_NOVA]"}},
		"classes, standard and own": {[]string{`{"address":"0000:83:00.0","resource_class":"PGPU"}`,
			`{"address":"0000:82:00.0","resource_class":"crypto","traits":"to-the-moon,hodl"}`}, []string{
			"cmp1_0000:82:00.0  CUSTOM_CRYPTO 0/1  [" + marks + " CUSTOM_HODL CUSTOM_TO_THE_MOON OWNER_NOVA]",
			"cmp1_0000:83:00.0  PGPU 0/1  [" + marks + " OWNER_NOVA]"}},
		"VFs of one PF with two classes": {[]string{`{"address":"0000:81:00.1","resource_class":"vf1"}`,
			`{"address":"0000:81:00.2","resource_class":"vf2"}`},
			[]string{"0000:81:00.2", "CUSTOM_VF2", "0000:81:00.1", "CUSTOM_VF1"}},
		"VFs of one PF with two sets of traits": {[]string{`{"address":"0000:81:00.1","traits":"foo"}`,
			`{"address":"0000:81:00.2","traits":"bar"}`},
			[]string{"0000:81:00.2", "CUSTOM_BAR", "0000:81:00.1", "CUSTOM_FOO"}},
		"physical_network of VFs":  {[]string{`{"product_id":"1515","physical_network":"physnet1"}`}, nil},
		"physical_network of a PF": {[]string{`{"address":"0000:82:00.0","physical_network":"physnet1"}`}, nil},
		"devname":                  {[]string{`{"devname":"eth0"}`}, []string{"eth0", "address"}},
		"nothing matches":          {[]string{`{"vendor_id":"ffff"}`}, nil},
		"a PF, then one of its VFs": {[]string{`{"address":"0000:81:00.0","product_id":"1528"}`,
			`{"address":"0000:81:00.1"}`}, []string{"0000:81:00.0", "0000:81:00.1", "both offered"}},
		"a VF, then its PF": {[]string{`{"address":"0000:81:00.1"}`,
			`{"address":"0000:81:00.0","product_id":"1528"}`}, []string{"0000:81:00.0", "0000:81:00.1", "both offered"}},
		"live_migratable no brings no trait": {[]string{`{"address":"0000:83:00.0","live_migratable":"no"}`}, []string{
			"cmp1_0000:83:00.0  CUSTOM_PCI_10DE_20B0 0/1  [" + marks + " OWNER_NOVA]"}},
		"one_time_use of VFs": {[]string{`{"product_id":"1515","one_time_use":true}`}, []string{"one_time_use"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := sampleFacts(t, c.rules...)
			if strings.HasPrefix(name, "rules with traits") { // a VF without a rule
				f.Devices = append(f.Devices, pci.Device{Address: pci.Address{Bus: 0x82, Func: 1}, Vendor: "8086", Product: "1515",
					Type: pci.Virtual, Parent: &pf82})
			}
			tree, _, err := Desired(f)
			if err != nil {
				if tree.Providers != nil || !fault.Is(err, fault.Invalid) {
					t.Errorf("%v beside %v", tree, err)
				}
				rest := fault.TextOf(err)
				for _, part := range c.want { // in this order
					_, after, found := strings.Cut(rest, part)
					if !found {
						t.Errorf("%q does not contain %q", fault.TextOf(err), part)
					}
					rest = after
				}
				return
			}
			lines := strings.Split(strings.TrimSpace(picture(f)), "\n")[1:]
			for i := range lines {
				lines[i] = strings.TrimLeft(lines[i], "├└─ ")
			}
			if strings.Join(lines, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// BenchmarkDesired runs Desired with 500 VFs of 63 PFs and 20 rules of which the last matches, as in each
// observation of a host.
func BenchmarkDesired(b *testing.B) {
	f := Facts{Host: "cmp1", Root: root, Report: true}
	for i := range 63 {
		pf := pci.Address{Bus: uint8(i)}
		f.Devices = append(f.Devices, pci.Device{Address: pf, Vendor: "8086", Product: "1528", Type: pci.Physical,
			Class: 0x020000})
		for n := range 8 {
			f.Devices = append(f.Devices, pci.Device{Address: pci.Address{Bus: pf.Bus, Slot: 1, Func: uint8(n)}, Vendor: "8086",
				Product: "1515", Type: pci.Virtual, Parent: &pf, Class: 0x020000})
		}
	}
	for i := range 20 {
		rules, err := pci.ParseSpecs(fmt.Sprintf(`{"address":"0000:f%x:00.0","product_id":"1515"}`, i%16))
		if i == 19 {
			rules, err = pci.ParseSpecs(`{"product_id":"1515"}`)
		}
		if err != nil {
			b.Fatal(err)
		}
		f.Rules = append(f.Rules, rules...)
	}
	for b.Loop() {
		if tree, _, err := Desired(f); err != nil || len(tree.Providers) != 64 {
			b.Fatal(len(tree.Providers), err)
		}
	}
}

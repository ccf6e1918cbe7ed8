package survey

import (
	"strings"
	"testing"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

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
			f := facts(t, c.rules...)
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

// A VF and one that carries vDPA are counted together; with different products they are refused.
func TestVDPABesideVFs(t *testing.T) {
	f := facts(t, `{"product_id":"1515"}`, `{"product_id":"1516"}`)
	f.Devices[3].Type = pci.VDPA
	if p := picture(f); !strings.Contains(p, "CUSTOM_PCI_8086_1515 0/2") {
		t.Error(p)
	}
	f.Devices[3].Product = "1516"
	if _, _, err := Desired(f); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "CUSTOM_PCI_8086_1516") {
		t.Error(err)
	}
}

// A device that vanished while held stays in the tree; a claim without a class gets Placement's class.
func TestHeldDevicesStayInTree(t *testing.T) {
	f := facts(t, `{"product_id":"1515"}`)
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
		"a claim without a class": {nil, []device.Claim{{Offer: device.Offer{Device: one.Device,
			Provider: one.Provider, Name: one.Name}, Holder: "s1"}},
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

// The rules determine which devices are offered, and each offer has the properties of its rule.
func TestOffersHaveRuleProperties(t *testing.T) {
	f := facts(t, `{"product_id":"1515","live_migratable":"yes","managed":"no"}`,
		`{"address":"0000:82:00.0","live_migratable":"no","managed":"yes"}`, `{"address":"0000:83:00.0"}`)
	want := map[string]pci.Flag{"0000:81:00.1": pci.Yes, "0000:81:00.2": pci.Yes, "0000:82:00.0": pci.No,
		"0000:83:00.0": pci.Unset}
	offers := Offers(f)
	for _, o := range offers {
		if flag, offered := want[o.Device.Address.String()]; !offered || o.LiveMigratable != flag {
			t.Errorf("%s is offered as %q, want %q", o.Device, o.LiveMigratable, flag)
		}
		if managed := map[pci.Flag]pci.Flag{pci.Yes: pci.No, pci.No: pci.Yes,
			pci.Unset: pci.Unset}[o.LiveMigratable]; o.Managed != managed {
			t.Errorf("%s: managed %q, want %q", o.Device, o.Managed, managed)
		}
	}
	if len(offers) != len(want) {
		t.Errorf("%d of %d devices are offered", len(offers), len(want))
	}
}

// Each offer names the provider that counts it, the same one for all VFs of a PF; none for devices of ports, and
// without reporting.
func TestOffersNameProviders(t *testing.T) {
	f := facts(t, `{"product_id":"1515"}`, `{"address":"0000:82:00.0","physical_network":"p"}`,
		`{"address":"0000:83:00.0"}`)
	f.Actual.Providers = []provider.Provider{{ID: "old", Name: "cmp1_0000:83:00.0", Parent: root, Root: root}}
	tree, _, err := Desired(f)
	if err != nil {
		t.Fatal(err)
	}
	card, _ := tree.ByName("cmp1_0000:81:00.0")
	want := map[pci.Address]provider.ID{vf1: card.ID, vf2: card.ID, pf82: "", gpu: "old"}
	for _, report := range []bool{true, false} {
		f.Report = report
		offers := Offers(f)
		for _, o := range offers {
			if id := want[o.Device.Address]; o.Provider != id && report || o.Provider != "" && !report {
				t.Errorf("reporting %v: %s has provider %q, want %q", report, o.Device, o.Provider, id)
			}
		}
		if len(offers) != len(want) || card.ID == "" {
			t.Errorf("%d offers", len(offers))
		}
	}
}

// As in Nova, the new tags take effect only with report_in_placement, and the old tracker supports a PF beside its
// VFs: without reporting, devices that could not be reported are offered as before.
func TestNoRefusalWithoutReporting(t *testing.T) {
	for _, rules := range [][]string{
		{`{"product_id":"1528"}`, `{"product_id":"1515"}`},
		{`{"address":"0000:81:00.1","resource_class":"vf1","traits":"a"}`,
			`{"address":"0000:81:00.2","resource_class":"vf2","traits":"b"}`},
		{`{"devname":"ens1"}`},
	} {
		f := facts(t, rules...)
		if _, _, err := Desired(f); err == nil {
			t.Errorf("%s is reported", rules)
		}
		f.Report = false
		tree, notes, err := Desired(f)
		if offers := Offers(f); err != nil || len(tree.Providers) != 1 || len(notes) > 0 || len(offers) < 2 ||
			offers[0].Provider != "" {
			t.Errorf("%s: %v %v, %d providers, %v", rules, err, notes, len(tree.Providers), offers)
		}
	}
}

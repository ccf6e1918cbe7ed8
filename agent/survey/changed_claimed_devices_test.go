package survey

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// with returns the host with these devices instead of those at their addresses.
func (f Facts) with(devices ...pci.Device) Facts {
	f.Devices = slices.Clone(f.Devices)
	for _, d := range devices {
		f.Devices = slices.DeleteFunc(f.Devices, func(old pci.Device) bool { return old.Address == d.Address })
		f.Devices = append(f.Devices, d)
	}
	return f
}

// without returns the host without the devices at these addresses.
func (f Facts) without(addresses ...pci.Address) Facts {
	f.Devices = slices.DeleteFunc(slices.Clone(f.Devices), func(d pci.Device) bool {
		return slices.Contains(addresses,
			d.Address)
	})
	return f
}

// holding returns the host with claims of server s1 for these devices.
func (f Facts) holding(t *testing.T, addresses ...pci.Address) Facts {
	t.Helper()
	f.Held = slices.Clone(f.Held)
	for _, a := range addresses {
		f.Held = append(f.Held, f.claim(t, a))
	}
	return f
}

// plainAt, pfAt and vfAt return devices at these addresses with the ids of the test host.
func plainAt(at pci.Address, vendor, product string) pci.Device {
	return pci.Device{Address: at, Vendor: vendor, Product: product, Type: pci.Plain, Class: 0x030200}
}

func pfAt(at pci.Address) pci.Device {
	return pci.Device{Address: at, Vendor: "8086", Product: "1528", Type: pci.Physical, Class: 0x020000}
}

func vfAt(at, pf pci.Address, product string) pci.Device {
	return pci.Device{Address: at, Vendor: "8086", Product: product, Type: pci.Virtual, Parent: &pf, Class: 0x020000}
}

// TestHeldDeviceHasChanged tests that the tree keeps a held device that has changed as it was claimed, that its
// present form is not offered to other servers, and that all other devices are offered.
func TestHeldDeviceHasChanged(t *testing.T) {
	const managed = "  [COMPUTE_MANAGED_PCI_DEVICE OWNER_NOVA]"
	const gpuTree = "├─ cmp1_0000:83:00.0  CUSTOM_PCI_10DE_20B0 0/1" + managed + "\n" +
		"└─ cmp1_10000:0A:00.0  CUSTOM_PCI_10DE_20B0 0/1" + managed
	const vfTree = "└─ cmp1_0000:81:00.0  CUSTOM_PCI_8086_1515 0/2" + managed
	const ofPF = " of 0000:81:00.0"
	domain := pci.Address{Domain: 0x10000, Bus: 0x0a}
	other, third, fourth := pci.Address{Bus: 0x90}, pci.Address{Bus: 0x81, Func: 3}, pci.Address{Bus: 0x81, Func: 4}
	gpus, vfs := sampleFacts(t, `{"vendor_id":"10de"}`).holding(t, gpu), sampleFacts(t, `{"product_id":"1515"}`).holding(t,
		vf1)
	bridge := plainAt(gpu, "10de", "20b0")
	bridge.Class = 0x060400
	vdpa := vfAt(vf1, pf81, "1515")
	vdpa.Type = pci.VDPA
	for _, c := range []struct {
		name          string
		f             Facts
		tree          string
		at, is, was   string
		keeps, beside string // the provider and class; relatives that are withheld
	}{
		{"another resource class", gpus.with(plainAt(gpu, "10de", "20b1")), gpuTree,
			"0000:83:00.0", "10de:20b1 type-PCI", "10de:20b0 type-PCI", "83:00.0 keeps CUSTOM_PCI_10DE_20B0", ""},
		{"no rule matches any more", gpus.with(plainAt(gpu, "144d", "a80a")), gpuTree,
			"0000:83:00.0", "144d:a80a type-PCI", "10de:20b0 type-PCI", "83:00.0 keeps CUSTOM_PCI_10DE_20B0", ""},
		{"another PCI class, of a bridge", gpus.with(bridge), gpuTree,
			"0000:83:00.0", "10de:20b0 type-PCI class 060400", "10de:20b0 type-PCI class 030200",
			"83:00.0 keeps CUSTOM_PCI_10DE_20B0", ""},
		{"one VF of two", vfs.with(vfAt(vf1, pf81, "1516")), vfTree,
			"0000:81:00.1", "8086:1516 type-VF" + ofPF, "8086:1515 type-VF" + ofPF,
			"81:00.0 keeps CUSTOM_PCI_8086_1515", ""},
		{"all VFs of a card: those that are free are offered as what they are",
			sampleFacts(t, `{"address":"0000:81:00.1"}`, `{"address":"0000:81:00.2"}`).holding(t, vf1).
				with(vfAt(vf1, pf81, "1516"), vfAt(vf2, pf81, "1516")),
			"└─ cmp1_0000:81:00.0  CUSTOM_PCI_8086_1515 0/1  CUSTOM_PCI_8086_1516 0/1" + managed,
			"0000:81:00.1", "8086:1516 type-VF" + ofPF, "8086:1515 type-VF" + ofPF,
			"81:00.0 keeps CUSTOM_PCI_8086_1515", ""},
		{"a PF becomes a VF of another card",
			sampleFacts(t, `{"product_id":"1528"}`).without(vf1, vf2).holding(t, pf82).
				with(vfAt(pf82, other, "1515"), pfAt(other)),
			"├─ cmp1_0000:81:00.0  CUSTOM_PCI_8086_1528 0/1" + managed + "\n" +
				"└─ cmp1_0000:82:00.0  CUSTOM_PCI_8086_1528 0/1" + managed,
			"0000:82:00.0", "8086:1515 type-VF of 0000:90:00.0", "8086:1528 type-PF",
			"82:00.0 keeps CUSTOM_PCI_8086_1528", "0000:90:00.0"},
		{"a VF becomes a PF with VFs", vfs.with(pfAt(vf1), vfAt(third, vf1, "1515"), vfAt(fourth, vf1, "1515")), vfTree,
			"0000:81:00.1", "8086:1528 type-PF", "8086:1515 type-VF" + ofPF,
			"81:00.0 keeps CUSTOM_PCI_8086_1515", "0000:81:00.3, 0000:81:00.4"},
		{"a VF becomes plain", vfs.with(plainAt(vf1, "8086", "1515")), vfTree,
			"0000:81:00.1", "8086:1515 type-PCI", "8086:1515 type-VF" + ofPF, "81:00.0 keeps CUSTOM_PCI_8086_1515", ""},
		{"a VF moves to another PF", vfs.with(vfAt(vf1, pf82, "1515")), vfTree,
			"0000:81:00.1", "8086:1515 type-VF of 0000:82:00.0", "8086:1515 type-VF" + ofPF,
			"81:00.0 keeps CUSTOM_PCI_8086_1515", ""},
		{"a VF gets vDPA", vfs.with(vdpa), vfTree,
			"0000:81:00.1", "8086:1515 vdpa" + ofPF, "8086:1515 type-VF" + ofPF, "81:00.0 keeps CUSTOM_PCI_8086_1515",
			""},
		{"a plain device becomes a PF, whose VFs match",
			sampleFacts(t, `{"vendor_id":"10de"}`, `{"product_id":"1515","address":"0000:83:*.*"}`).without(domain).
				holding(t, gpu).with(pfAt(gpu), vfAt(pci.Address{Bus: 0x83, Func: 1}, gpu, "1515")),
			"└─ cmp1_0000:83:00.0  CUSTOM_PCI_10DE_20B0 0/1" + managed,
			"0000:83:00.0", "8086:1528 type-PF", "10de:20b0 type-PCI", "83:00.0 keeps CUSTOM_PCI_10DE_20B0",
			"0000:83:00.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			also := ""
			if c.beside != "" {
				also = ", nor are its relatives " + c.beside
			}
			expect(t, c.f, rootLine, c.tree, fmt.Sprintf("%s: is %s now, but server s1 holds it as %s: the server "+
				"keeps "+
				"it as it was claimed (cmp1_0000:%s), and no other server is offered it%s; put the old device back, "+
				"or "+
				"delete or migrate the server: then it is offered as what it is now", c.at, c.is, c.was, c.keeps, also))
			c.f.Held = nil
			if _, notes, err := Desired(c.f); err != nil || len(notes) > 0 {
				t.Errorf("without the claim: %v %v", notes, err)
			}
		})
	}
	unknown := gpus.with(plainAt(gpu, "10de", "20b0"))
	unknown.Held = slices.Clone(unknown.Held)
	unknown.Held[0].Device.Class = 0 // a journal of an older agent
	expect(t, unknown, rootLine, gpuTree)
}

// A card is replaced: the held VF is gone, and another device is at its PF's address. That device is not offered
// beside the VF, whose provider has its address, and the start is not refused.
func TestHeldVFWithReplacedCard(t *testing.T) {
	f := sampleFacts(t, `{"product_id":"1515"}`, `{"vendor_id":"10de"}`).holding(t, vf1)
	f = f.without(vf1, vf2, gpu).with(plainAt(pf81, "10de", "20b0"))
	expect(t, f, rootLine,
		"├─ cmp1_0000:81:00.0  CUSTOM_PCI_8086_1515 0/1  [COMPUTE_MANAGED_PCI_DEVICE OWNER_NOVA]",
		"└─ cmp1_10000:0A:00.0  CUSTOM_PCI_10DE_20B0 0/1  [COMPUTE_MANAGED_PCI_DEVICE OWNER_NOVA]",
		"0000:81:00.1: is held by server s1 as 8086:1515 type-VF of 0000:81:00.0, though it is no longer on the host: "+
			"the server keeps it (cmp1_0000:81:00.0 keeps CUSTOM_PCI_8086_1515), and no other server is offered its "+
			"relatives 0000:81:00.0; put the device back, or delete or migrate the server",
		"0000:81:00.1: is held by server s1, though it is no longer on the host; cmp1_0000:81:00.0 keeps "+
			"CUSTOM_PCI_8086_1515 until the server is gone")
}

// A held device that the host cannot read is not gone.
func TestHeldDeviceIsUnreadable(t *testing.T) {
	f := sampleFacts(t, `{"product_id":"1515"}`).holding(t, vf1).without(vf1)
	f.Unreadable = map[device.ID]bool{device.PCI(vf1): true}
	expect(t, f, rootLine,
		"└─ cmp1_0000:81:00.0  CUSTOM_PCI_8086_1515 0/2  [COMPUTE_MANAGED_PCI_DEVICE OWNER_NOVA]",
		"0000:81:00.1: is held by server s1, though the host cannot read it now; cmp1_0000:81:00.0 keeps "+
			"CUSTOM_PCI_8086_1515 until the server is gone")
}

// Without reporting a changed device still gets a note. When reporting begins, a device that Placement never counted
// is not counted; otherwise other consumers could claim it.
func TestHeldDeviceHasChangedWithoutReporting(t *testing.T) {
	f := sampleFacts(t, `{"vendor_id":"10de"}`)
	f.Report = false
	f = f.holding(t, gpu).with(pci.Device{Address: gpu, Vendor: "10de", Product: "20b1", Type: pci.Plain,
		Class: 0x030200})
	const want = "0000:83:00.0: is 10de:20b1 type-PCI now, but server s1 holds it as 10de:20b0 type-PCI: the server " +
		"keeps it as it was claimed, and no other"
	if got := picture(f); !strings.HasPrefix(got, rootLine+"\n"+want) {
		t.Error(got)
	}
	f.Report = true
	if got := picture(f); strings.Contains(got, "cmp1_0000:83:00.0") || !strings.Contains(got, want) {
		t.Error(got)
	}
}

// A configured change of the class of an unchanged held device refuses the start, also beside a changed device.
func TestClassChangeIsRefusedBesideChangedDevice(t *testing.T) {
	f := sampleFacts(t, `{"vendor_id":"10de"}`).holding(t, gpu, pci.Address{Domain: 0x10000, Bus: 0x0a})
	f = f.with(pci.Device{Address: gpu, Vendor: "10de", Product: "20b1", Type: pci.Plain})
	f.Rules = sampleFacts(t, `{"vendor_id":"10de","resource_class":"gpu"}`).Rules
	_, _, err := Desired(f)
	if text := fault.TextOf(err); !fault.Is(err, fault.Invalid) || !strings.Contains(text, "10000:0a:00.0") ||
		len(Problems(err)) != 1 {
		t.Errorf("%v", err)
	}
}

// Random changes of held hardware never refuse a start that would succeed without claims, keep every claim's
// inventory, and offer no device that a guest may have.
func TestRandomHardwareChanges(t *testing.T) {
	rules := []string{`{"product_id":"1515"}`, `{"vendor_id":"10de"}`, `{"vendor_id":"144d","address":"0000:83:00.0"}`,
		`{"product_id":"1528","address":"0000:82:00.0"}`}
	addresses := []pci.Address{pf81, vf1, vf2, pf82, gpu, {Bus: 0x81, Func: 3}, {Bus: 0x82, Func: 1}}
	rng, kept := rand.New(rand.NewPCG(14, 8)), 0
	for range 2000 {
		f := sampleFacts(t, rules...)
		for _, o := range Offers(f) {
			if rng.IntN(2) == 0 {
				f = f.holding(t, o.Device.Address)
			}
		}
		for range 1 + rng.IntN(4) {
			at := addresses[rng.IntN(len(addresses))]
			if rng.IntN(4) == 0 {
				f = f.without(at)
				continue
			}
			d := pci.Device{Address: at, Vendor: []string{"8086", "10de", "144d"}[rng.IntN(3)],
				Product: []string{"1515", "1528", "20b0", "a80a"}[rng.IntN(4)],
				Type:    []pci.Type{pci.Plain, pci.Physical, pci.Virtual}[rng.IntN(3)], Class: 0x020000}
			if parent := addresses[rng.IntN(len(addresses))]; d.Type == pci.Virtual && parent != at {
				d.Parent = &parent
			} else if d.Type == pci.Virtual {
				d.Type = pci.Plain
			}
			f = f.with(d)
		}
		f.Devices = sensible(f.Devices)
		tree, notes, err := Desired(f)
		free := f
		free.Held = nil
		if _, _, without := Desired(free); err != nil && without == nil {
			t.Fatalf("rejected because of claims: %v\n%v\nheld %v", err, f.Devices, f.Held)
		} else if err != nil {
			continue
		}
		kept++
		checkKept(t, f, tree, notes)
	}
	if kept < 400 {
		t.Errorf("only %d hosts were accepted", kept)
	}
}

// sensible turns each parent of VFs into a PF, and VFs of VFs into plain devices, because a kernel has no others.
func sensible(devices []pci.Device) []pci.Device {
	out := slices.Clone(devices)
	for i := range out {
		for j := range out {
			if out[j].Parent != nil && *out[j].Parent == out[i].Address && out[i].Parent == nil {
				out[i].Type = pci.Physical
			}
			if out[j].Parent != nil && *out[j].Parent == out[i].Address && out[i].Parent != nil {
				out[j].Parent, out[j].Type = nil, pci.Plain
			}
		}
	}
	return out
}

// checkKept counts inventories without the code under test.
func checkKept(t *testing.T, f Facts, tree provider.Tree, notes []Note) {
	t.Helper()
	type key struct {
		id    provider.ID
		class resource.Class
	}
	most := map[key]int{} // claims and offers
	held := map[pci.Address]device.Claim{}
	for _, c := range f.Held {
		held[c.Device.Address] = c
		k := key{c.Provider, c.ResourceClass}
		most[k]++
		p, _ := tree.ByID(c.Provider)
		if p.Inventories[c.ResourceClass].Total < most[k] {
			t.Fatalf("%s keeps %d of %s, but guests hold %d\n%v", p.Name, p.Inventories[c.ResourceClass].Total, c.ResourceClass,
				most[k], f.Devices)
		}
	}
	now := map[pci.Address]pci.Device{}
	for _, d := range f.Devices {
		now[d.Address] = d
	}
	for _, o := range Offers(f) {
		d := o.Device
		withheld := false
		for at, c := range held {
			is, there := now[at]
			related := func(a, b pci.Device) bool {
				return a.Parent != nil && *a.Parent == b.Address || b.Parent != nil && *b.Parent == a.Address
			}
			withheld = withheld || at == d.Address || there && related(is, d)
			withheld = withheld || (!there || c.Changed(is)) && d.Parent == nil && related(c.Device, d)
			withheld = withheld || (!there || c.Changed(is)) && d.Parent != nil && *d.Parent == at
		}
		if !withheld {
			most[key{o.Provider, o.ResourceClass}]++
		}
	}
	for _, p := range tree.Providers[1:] {
		for class, inv := range p.Inventories {
			if inv.Total > most[key{p.ID, class}] {
				t.Fatalf("%s has %d of %s, of which at most %d can be offered or held\n%v\nheld %v", p.Name, inv.Total,
					class, most[key{p.ID, class}], f.Devices, f.Held)
			}
		}
	}
	for at, c := range held {
		if is, there := now[at]; there && c.Changed(is) && !slices.ContainsFunc(notes,
			func(n Note) bool { return n.About == at.String() && strings.Contains(n.Sentence, string(c.Holder)) }) {
			t.Fatalf("no note on %s: %v", at, notes)
		}
	}
}

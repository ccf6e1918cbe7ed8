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

// with is the host with these devices in place of what was at their addresses.
func (f Facts) with(devices ...pci.Device) Facts {
	f.Devices = slices.Clone(f.Devices)
	for _, d := range devices {
		f.Devices = slices.DeleteFunc(f.Devices, func(old pci.Device) bool { return old.Address == d.Address })
		f.Devices = append(f.Devices, d)
	}
	return f
}

// without is the host without what is at these addresses.
func (f Facts) without(addresses ...pci.Address) Facts {
	f.Devices = slices.DeleteFunc(slices.Clone(f.Devices), func(d pci.Device) bool { return slices.Contains(addresses, d.Address) })
	return f
}

// holding is the host on which server s1 holds these devices, as they are now.
func (f Facts) holding(t *testing.T, addresses ...pci.Address) Facts {
	t.Helper()
	f.Held = slices.Clone(f.Held)
	for _, a := range addresses {
		f.Held = append(f.Held, f.claim(t, a))
	}
	return f
}

// Row 14 of the safety rows: whatever a held device turns into, the tree keeps it as it was claimed, offers what it is now to no other server,
// and offers everything else.
func TestAHeldDeviceHasChanged(t *testing.T) {
	const managed = "[COMPUTE_MANAGED_PCI_DEVICE OWNER_NOVA]"
	other := pci.Address{Bus: 0x90}
	plain := func(at pci.Address, vendor, product string) pci.Device {
		return pci.Device{Address: at, Vendor: vendor, Product: product, Type: pci.Plain, Class: 0x030200}
	}
	vf := func(at, pf pci.Address) pci.Device {
		return pci.Device{Address: at, Vendor: "8086", Product: "1515", Type: pci.Virtual, Parent: &pf, Class: 0x020000}
	}
	pf := func(at pci.Address, product string) pci.Device {
		return pci.Device{Address: at, Vendor: "8086", Product: product, Type: pci.Physical, Class: 0x020000}
	}
	gpus := facts(t, `{"vendor_id":"10de"}`)
	gpuLine, otherGPU := "├─ cmp1_0000:83:00.0  CUSTOM_PCI_10DE_20B0 0/1  "+managed, "└─ cmp1_10000:0A:00.0  CUSTOM_PCI_10DE_20B0 0/1  "+managed
	vfs := facts(t, `{"product_id":"1515"}`)
	change := func(at, is, was, keeps, also string) string {
		return fmt.Sprintf("%s: is %s now, but server s1 holds it as %s: the server keeps it as it was claimed%s, and no other server is offered it%s; "+
			"put the old device back, or delete or migrate the server: then it is offered as what it is now", at, is, was, keeps, also)
	}
	const gpuKeeps, vfKeeps = " (cmp1_0000:83:00.0 keeps CUSTOM_PCI_10DE_20B0)", " (cmp1_0000:81:00.0 keeps CUSTOM_PCI_8086_1515)"
	for name, c := range map[string]struct {
		f    Facts
		want []string
	}{
		"another resource class": {gpus.holding(t, gpu).with(plain(gpu, "10de", "20b1")), []string{rootLine, gpuLine, otherGPU,
			change("0000:83:00.0", "10de:20b1 type-PCI", "10de:20b0 type-PCI", gpuKeeps, "")}},
		"no rule matches any more": {gpus.holding(t, gpu).with(plain(gpu, "144d", "a80a")), []string{rootLine, gpuLine, otherGPU,
			change("0000:83:00.0", "144d:a80a type-PCI", "10de:20b0 type-PCI", gpuKeeps, "")}},
		"another PCI class, of a bridge": {gpus.holding(t, gpu).with(pci.Device{Address: gpu, Vendor: "10de", Product: "20b0", Type: pci.Plain, Class: 0x060400}), []string{rootLine, gpuLine, otherGPU,
			change("0000:83:00.0", "10de:20b0 type-PCI class 060400", "10de:20b0 type-PCI class 030200", gpuKeeps, "")}},
		"the PCI class was not written down": {func() Facts {
			f := gpus.holding(t, gpu)
			f.Held[0].Device.Class = 0
			return f
		}(), []string{rootLine, gpuLine, otherGPU}},
		"one VF of two": {vfs.holding(t, vf1).with(pci.Device{Address: vf1, Vendor: "8086", Product: "1516", Type: pci.Virtual, Parent: &pf81}), []string{rootLine,
			"└─ cmp1_0000:81:00.0  CUSTOM_PCI_8086_1515 0/2  " + managed,
			change("0000:81:00.1", "8086:1516 type-VF of 0000:81:00.0", "8086:1515 type-VF of 0000:81:00.0", vfKeeps, "")}},
		"all VFs of a card, one of them held: the other is offered as what it is now": {facts(t, `{"address":"0000:81:00.1"}`, `{"address":"0000:81:00.2"}`).holding(t, vf1).
			with(pci.Device{Address: vf1, Vendor: "8086", Product: "1516", Type: pci.Virtual, Parent: &pf81}, pci.Device{Address: vf2, Vendor: "8086", Product: "1516", Type: pci.Virtual, Parent: &pf81}),
			[]string{rootLine, "└─ cmp1_0000:81:00.0  CUSTOM_PCI_8086_1515 0/1  CUSTOM_PCI_8086_1516 0/1  " + managed,
				change("0000:81:00.1", "8086:1516 type-VF of 0000:81:00.0", "8086:1515 type-VF of 0000:81:00.0", vfKeeps, "")}},
		"a PF becomes a VF of another card": {facts(t, `{"product_id":"1528"}`).without(vf1, vf2).holding(t, pf82).with(vf(pf82, other), pf(other, "1528")),
			[]string{rootLine, "├─ cmp1_0000:81:00.0  CUSTOM_PCI_8086_1528 0/1  " + managed, "└─ cmp1_0000:82:00.0  CUSTOM_PCI_8086_1528 0/1  " + managed,
				change("0000:82:00.0", "8086:1515 type-VF of 0000:90:00.0", "8086:1528 type-PF", " (cmp1_0000:82:00.0 keeps CUSTOM_PCI_8086_1528)", ", nor are its relatives 0000:90:00.0")}},
		"a VF becomes a PF with VFs": {vfs.holding(t, vf1).with(pf(vf1, "1528"), vf(pci.Address{Bus: 0x81, Func: 3}, vf1), vf(pci.Address{Bus: 0x81, Func: 4}, vf1)), []string{rootLine,
			"└─ cmp1_0000:81:00.0  CUSTOM_PCI_8086_1515 0/2  " + managed,
			change("0000:81:00.1", "8086:1528 type-PF", "8086:1515 type-VF of 0000:81:00.0", vfKeeps, ", nor are its relatives 0000:81:00.3, 0000:81:00.4")}},
		"a VF becomes plain": {vfs.holding(t, vf1).with(plain(vf1, "8086", "1515")), []string{rootLine, "└─ cmp1_0000:81:00.0  CUSTOM_PCI_8086_1515 0/2  " + managed,
			change("0000:81:00.1", "8086:1515 type-PCI", "8086:1515 type-VF of 0000:81:00.0", vfKeeps, "")}},
		"a VF moves to another PF": {vfs.holding(t, vf1).with(vf(vf1, pf82)), []string{rootLine, "└─ cmp1_0000:81:00.0  CUSTOM_PCI_8086_1515 0/2  " + managed,
			change("0000:81:00.1", "8086:1515 type-VF of 0000:82:00.0", "8086:1515 type-VF of 0000:81:00.0", vfKeeps, "")}},
		"a VF gets vDPA": {vfs.holding(t, vf1).with(pci.Device{Address: vf1, Vendor: "8086", Product: "1515", Type: pci.VDPA, Parent: &pf81}), []string{rootLine,
			"└─ cmp1_0000:81:00.0  CUSTOM_PCI_8086_1515 0/2  " + managed,
			change("0000:81:00.1", "8086:1515 vdpa of 0000:81:00.0", "8086:1515 type-VF of 0000:81:00.0", vfKeeps, "")}},
		"a plain device becomes a PF, whose VFs match": {facts(t, `{"vendor_id":"10de"}`, `{"product_id":"1515","address":"0000:83:*.*"}`).without(pci.Address{Domain: 0x10000, Bus: 0x0a}).
			holding(t, gpu).with(pf(gpu, "1528"), vf(pci.Address{Bus: 0x83, Func: 1}, gpu)), []string{rootLine, "└─ cmp1_0000:83:00.0  CUSTOM_PCI_10DE_20B0 0/1  " + managed,
			change("0000:83:00.0", "8086:1528 type-PF", "10de:20b0 type-PCI", gpuKeeps, ", nor are its relatives 0000:83:00.1")}},
		"a card is replaced: its VF is gone, another device is where its PF was": {facts(t, `{"product_id":"1515"}`, `{"vendor_id":"10de"}`).holding(t, vf1).without(vf1, vf2, gpu).with(plain(pf81, "10de", "20b0")),
			[]string{rootLine, "├─ cmp1_0000:81:00.0  CUSTOM_PCI_8086_1515 0/1  " + managed, otherGPU,
				"0000:81:00.1: is held by server s1 as 8086:1515 type-VF of 0000:81:00.0, though it is no longer on the host: the server keeps it (cmp1_0000:81:00.0 keeps CUSTOM_PCI_8086_1515), and " +
					"no other server is offered its relatives 0000:81:00.0; put the device back, or delete or migrate the server",
				"0000:81:00.1: is held by server s1, though it is no longer on the host; cmp1_0000:81:00.0 keeps CUSTOM_PCI_8086_1515 until the server is gone"}},
		"it is unreadable": {func() Facts {
			f := vfs.holding(t, vf1).without(vf1)
			f.Unreadable = map[pci.Address]bool{vf1: true}
			return f
		}(), []string{rootLine, "└─ cmp1_0000:81:00.0  CUSTOM_PCI_8086_1515 0/2  " + managed,
			"0000:81:00.1: is held by server s1, though the host cannot read it now; cmp1_0000:81:00.0 keeps CUSTOM_PCI_8086_1515 until the server is gone"}},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, c.f, c.want...)
			c.f.Held = nil
			if got := picture(c.f); strings.Contains(got, "s1") || strings.Contains(got, "device_spec at") {
				t.Errorf("when the server has let go:\n%s", got)
			}
		})
	}
}

// While nothing is reported a changed device is named all the same. When reporting begins, what Placement never counted is not counted, or it
// would be offered to others.
func TestAHeldDeviceHasChangedThatIsNotReported(t *testing.T) {
	f := facts(t, `{"vendor_id":"10de"}`)
	f.Report = false
	f = f.holding(t, gpu).with(pci.Device{Address: gpu, Vendor: "10de", Product: "20b1", Type: pci.Plain, Class: 0x030200})
	const says = "0000:83:00.0: is 10de:20b1 type-PCI now, but server s1 holds it as 10de:20b0 type-PCI: the server keeps it as it was claimed, and no other"
	if got := picture(f); !strings.HasPrefix(got, rootLine+"\n"+says) {
		t.Error(got)
	}
	f.Report = true
	if got := picture(f); strings.Contains(got, "cmp1_0000:83:00.0") || !strings.Contains(got, says) {
		t.Error(got)
	}
}

// Another class for a device that is what it was, by the configuration, still refuses the start, also beside one that has changed.
func TestAChangedDeviceExcusesNoConfiguration(t *testing.T) {
	f := facts(t, `{"vendor_id":"10de"}`).holding(t, gpu, pci.Address{Domain: 0x10000, Bus: 0x0a})
	f = f.with(pci.Device{Address: gpu, Vendor: "10de", Product: "20b1", Type: pci.Plain})
	f.Rules = facts(t, `{"vendor_id":"10de","resource_class":"gpu"}`).Rules
	_, _, err := Desired(f)
	if text := fault.TextOf(err); !fault.Is(err, fault.Invalid) || !strings.Contains(text, "10000:0a:00.0") || len(Wrong(err)) != 1 {
		t.Errorf("%v", err)
	}
}

// Hardware that changes at random under guests never refuses a start that would not be refused without them, keeps every claim's inventory, and
// offers nobody what a guest may have.
func TestHardwareChangesAtRandom(t *testing.T) {
	rules := []string{`{"product_id":"1515"}`, `{"vendor_id":"10de"}`, `{"vendor_id":"144d","address":"0000:83:00.0"}`, `{"product_id":"1528","address":"0000:82:00.0"}`}
	addresses := []pci.Address{pf81, vf1, vf2, pf82, gpu, {Bus: 0x81, Func: 3}, {Bus: 0x82, Func: 1}}
	rng, kept := rand.New(rand.NewPCG(14, 8)), 0
	for range 2000 {
		f := facts(t, rules...)
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
			d := pci.Device{Address: at, Vendor: []string{"8086", "10de", "144d"}[rng.IntN(3)], Product: []string{"1515", "1528", "20b0", "a80a"}[rng.IntN(4)],
				Type: []pci.Type{pci.Plain, pci.Physical, pci.Virtual}[rng.IntN(3)], Class: 0x020000}
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
			t.Fatalf("refused for what guests hold: %v\n%v\nheld %v", err, f.Devices, f.Held)
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

// sensible makes each parent of VFs a PF, and no VF the parent of another, as a kernel does.
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
	most := map[key]int{} // claims, and what nobody may have
	held := map[pci.Address]device.Claim{}
	for _, c := range f.Held {
		held[c.Device.Address] = c
		k := key{c.Provider, c.Class}
		most[k]++
		p, _ := tree.ByID(c.Provider)
		if p.Inventories[c.Class].Total < most[k] {
			t.Fatalf("%s keeps %d of %s, and guests hold %d\n%v", p.Name, p.Inventories[c.Class].Total, c.Class, most[k], f.Devices)
		}
	}
	now := map[pci.Address]pci.Device{}
	for _, d := range f.Devices {
		now[d.Address] = d
	}
	for _, o := range Offers(f) {
		d := o.Device
		taken := false
		for at, c := range held {
			is, there := now[at]
			related := func(a, b pci.Device) bool {
				return a.Parent != nil && *a.Parent == b.Address || b.Parent != nil && *b.Parent == a.Address
			}
			taken = taken || at == d.Address || there && related(is, d)
			taken = taken || (!there || c.Changed(is)) && d.Parent == nil && related(c.Device, d)
			taken = taken || (!there || c.Changed(is)) && d.Parent != nil && *d.Parent == at
		}
		if !taken {
			most[key{o.Provider, o.Class}]++
		}
	}
	for _, p := range tree.Providers[1:] {
		for class, inv := range p.Inventories {
			if inv.Total > most[key{p.ID, class}] {
				t.Fatalf("%s has %d of %s, of which at most %d can be offered or held\n%v\nheld %v", p.Name, inv.Total, class, most[key{p.ID, class}], f.Devices, f.Held)
			}
		}
	}
	for at, c := range held {
		if is, there := now[at]; there && c.Changed(is) && !slices.ContainsFunc(notes, func(n Note) bool { return n.About == at.String() && strings.Contains(n.Sentence, string(c.Holder)) }) {
			t.Fatalf("no note on %s: %v", at, notes)
		}
	}
}

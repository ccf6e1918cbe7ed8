package survey

import (
	"fmt"
	"strings"
	"testing"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
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

// sampleFacts returns the test host with these rules; each has its own line number.
func sampleFacts(t *testing.T, rules ...string) Facts {
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
			o.Holder, o.RequestID, o.State = "s1", "r1", pci.Allocated
			return device.Claim{Offer: o}
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

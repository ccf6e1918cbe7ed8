package survey

import (
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/pci"
)

const cardRule = `{"address":"0000:81:00.0","resource_class":"card","shapes":["pf","vf"]}`

// cardLine is the provider of a card in a picture.
func cardLine(inventory string) string {
	return "└─ cmp1_0000:81:00.0  CUSTOM_CARD " + inventory + "  [COMPUTE_MANAGED_PCI_DEVICE OWNER_NOVA]"
}

// A card that is offered as its PF and as its VFs has one provider with a slice for each VF, whichever of its devices
// the host has now.
func TestCardIsOneProvider(t *testing.T) {
	withVFs := func(f Facts, count int) Facts {
		f.Devices = slices.DeleteFunc(f.Devices, func(d pci.Device) bool {
			return d.Parent != nil && int(d.Address.Func) > count
		})
		for i := range f.Devices {
			if f.Devices[i].Address == pf81 {
				f.Devices[i].NumVFs = count
			}
		}
		return f
	}
	f := sampleFacts(t, cardRule)
	expect(t, f, rootLine, cardLine("0/2"))
	amounts := map[string]int{}
	for _, o := range Offers(f) {
		amounts[o.Address.String()] = o.Amount()
	}
	if len(amounts) != 3 || amounts["0000:81:00.0"] != 2 || amounts["0000:81:00.1"] != 1 {
		t.Errorf("the devices take %v", amounts)
	}
	expect(t, withVFs(sampleFacts(t, cardRule), 1), rootLine, cardLine("0/1"))
	expect(t, withVFs(sampleFacts(t, cardRule), 0), rootLine, cardLine("0/1")) // only the PF can be given

	// a guest has, or had, the PF, and its VFs do not exist
	given := withVFs(sampleFacts(t, cardRule), 0)
	given.VFs = map[device.ID]int{device.PCI(pf81): 2}
	expect(t, given, rootLine, cardLine("0/2"))
	given.Held = []device.Claim{given.claim(t, pf81)}
	expect(t, given, rootLine, cardLine("0/2"))
	// it has another number of VFs than when it was claimed, or is offered as its PF alone
	other := withVFs(sampleFacts(t, cardRule), 1)
	other.Held = given.Held
	expect(t, other, rootLine, cardLine("0/2"))
	alone := sampleFacts(t, `{"product_id":"1528","address":"0000:81:00.0","resource_class":"card"}`)
	alone.Held = given.Held
	expect(t, alone, rootLine, cardLine("0/2"))
	// the card has vanished
	given.Devices = slices.DeleteFunc(given.Devices, func(d pci.Device) bool { return d.Address == pf81 })
	expect(t, given, rootLine, cardLine("0/2"), "0000:81:00.0: is held by server s1, though it is no longer on the host; "+
		"cmp1_0000:81:00.0 keeps CUSTOM_CARD until the server is gone")
}

// Without shapes a PF beside its VFs is refused, and so is what shapes excludes on this host.
func TestRefusedCards(t *testing.T) {
	for name, c := range map[string]struct {
		rules  []string
		change func(f *Facts)
		want   string
	}{
		"without shapes": {[]string{`{"address":"0000:81:00.0","resource_class":"card"}`}, nil, "only one kind can be"},
		"another rule for a VF": {[]string{`{"address":"0000:81:00.2","resource_class":"card"}`, cardRule}, nil,
			"is offered with shapes, and of its VFs 0000:81:00.2 (device_spec at nova.conf:1"},
		"another rule for the PF": {[]string{`{"product_id":"1528","resource_class":"card"}`,
			`{"vendor_id":"8086","resource_class":"card","shapes":["pf","vf"]}`}, nil, "only one kind can be"},
		"not in Placement": {[]string{cardRule}, func(f *Facts) { f.Report = false }, "has shapes, which needs [pci]"},
		"a vDPA device":    {[]string{cardRule}, func(f *Facts) { f.Devices[2].Type = pci.VDPA }, "carries a vDPA device"},
		"a plain device": {[]string{`{"address":"0000:83:00.0","resource_class":"card","shapes":["pf","vf"]}`}, nil,
			"is a type-PCI, which has no VFs"},
	} {
		f := sampleFacts(t, c.rules...)
		if c.change != nil {
			c.change(&f)
		}
		if got := picture(f); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, not %q", name, got, c.want)
		}
		if _, wrong, _ := Verdicts(f); !strings.Contains(strings.Join(wrong, "\n"), c.want) {
			t.Errorf("%s: the verdicts are %q, not %q", name, wrong, c.want)
		}
	}
}

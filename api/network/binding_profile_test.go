package network

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// The binding profile of a port has its device, and of a remote-managed one how its card finds the VF. Without a device
// all of that is removed; keys that do not belong to a host stay.
func TestBindingProfiles(t *testing.T) {
	at, err := pci.ParseAddress("0000:81:00.2")
	if err != nil {
		t.Fatal(err)
	}
	physnet, none := "physnet1", ""
	for name, c := range map[string]struct {
		network *string
		remote  bool
		want    string
	}{
		"direct": {&physnet, false, `{"pci_slot":"0000:81:00.2","pci_vendor_info":"15b3:101e",` +
			`"physical_network":"physnet1","trusted":"true"}`},
		"direct in a tunnelled network": {&none, false, `{"pci_slot":"0000:81:00.2","pci_vendor_info":"15b3:101e",` +
			`"trusted":"true"}`},
		"remote-managed": {&physnet, true, `{"card_serial_number":"S1","pci_slot":"0000:81:00.2",` +
			`"pci_vendor_info":"15b3:101e","pf_mac_address":"52:54:00:00:00:01","physical_network":"physnet1",` +
			`"trusted":"true","vf_num":1}`},
		"remote-managed in a tunnelled network": {&none, true, `{"card_serial_number":"S1","pci_slot":"0000:81:00.2",` +
			`"pci_vendor_info":"15b3:101e","pf_mac_address":"52:54:00:00:00:01","physical_network":null,` +
			`"trusted":"true","vf_num":1}`},
		"remote-managed without physical_network": {nil, true, `{"card_serial_number":"S1","pci_slot":"0000:81:00.2",` +
			`"pci_vendor_info":"15b3:101e","pf_mac_address":"52:54:00:00:00:01","physical_network":null,` +
			`"trusted":"true","vf_num":1}`},
	} {
		device := ProfileDevice{Device: pci.Device{Address: at, Vendor: "15b3", Product: "101e", Type: pci.Virtual,
			Serial: "S1", PFMAC: "52:54:00:00:00:01", VFNumber: 1}, PhysicalNetwork: c.network, RemoteManaged: c.remote}
		old := map[string]any{"trusted": "true", "vf_num": 5.0, "card_serial_number": "old"}
		profile := BoundProfile(old, "p", nil, &device)
		if text, err := json.Marshal(profile); err != nil || string(text) != c.want {
			t.Errorf("%s: %s %v, want %s", name, text, err, c.want)
		}
		free := BoundProfile(profile, "p", map[string]provider.ID{"p": "rp"}, nil)
		if text, err := json.Marshal(free); err != nil || string(text) != `{"allocation":"rp","trusted":"true"}` {
			t.Errorf("%s: without the device %s %v", name, text, err)
		}
	}
}

// The binding profile of a direct-physical port has the MAC address of its NIC, as Nova's. It keeps the address while
// the agent does not know it, because a guest has the NIC, but not that of another NIC.
func TestBindingProfileOfANIC(t *testing.T) {
	at, err := pci.ParseAddress("0000:81:00.0")
	if err != nil {
		t.Fatal(err)
	}
	physnet := "physnet1"
	of := func(mac string, old map[string]any) any {
		device := ProfileDevice{Device: pci.Device{Address: at, Type: pci.Physical, PFMAC: mac},
			PhysicalNetwork: &physnet}
		return BoundProfile(old, "p", nil, &device)["device_mac_address"]
	}
	here := map[string]any{"pci_slot": "0000:81:00.0", "device_mac_address": "52:54:00:00:00:01"}
	other := map[string]any{"pci_slot": "0000:82:00.0", "device_mac_address": "52:54:00:00:00:01"}
	if got := []any{of("52:54:00:00:00:02", nil), of("52:54:00:00:00:02", here), of("", here), of("", other)}; got[0] !=
		"52:54:00:00:00:02" || got[1] != got[0] || got[2] != "52:54:00:00:00:01" || got[3] != nil {
		t.Errorf("%v", got)
	}
}

// A port keeps what its profile has of a device that no rule has for ports any more, and follows a changed rule.
func TestBindingProfileKeepsADeviceWithoutARule(t *testing.T) {
	at, err := pci.ParseAddress("0000:81:00.2")
	if err != nil {
		t.Fatal(err)
	}
	changed, tunnelled := "physnet2", ""
	for _, c := range []struct {
		slot string
		rule *string
		want []any // physical network, number of the VF on its card
	}{{"0000:81:00.2", nil, []any{"physnet1", 5.0}}, {"0000:81:00.2", &changed, []any{"physnet2", nil}},
		{"0000:81:00.2", &tunnelled, []any{nil, nil}}, {"0000:82:00.2", nil, []any{nil, nil}}} {
		old := map[string]any{"pci_slot": c.slot, "physical_network": "physnet1", "vf_num": 5.0, "allocation": "before"}
		device := ProfileDevice{Device: pci.Device{Address: at, Type: pci.Virtual}, PhysicalNetwork: c.rule}
		got := BoundProfile(old, "p", map[string]provider.ID{"p": "rp"}, &device)
		has := []any{got["physical_network"], got["vf_num"]}
		if !slices.Equal(has, c.want) || got["allocation"] != "rp" || got["pci_slot"] != at.String() {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

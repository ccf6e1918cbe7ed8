package bandwidth

import (
	"testing"

	"github.com/openberth/berth/provider"
)

// TestGoldenIDs compares IDs with those that Neutron's own code gives to the same names.
func TestGoldenIDs(t *testing.T) {
	for _, row := range []struct {
		name Name
		id   provider.ID
		text string
	}{
		{Name{"devstack0", OpenVSwitch, ""}, "89ca1421-5117-5348-acab-6d0e2054239c", "devstack0:Open vSwitch agent"},
		{Name{"devstack0", NICSwitch, ""}, "4a8a819d-61f9-5822-8c5c-3e9c7cb942d6", "devstack0:NIC Switch agent"},
		{Name{"host", OpenVSwitch, ""}, "791f63f0-1a1a-5c38-8972-5e43014fd58b", "host:Open vSwitch agent"},
		{Name{"host", OpenVSwitch, "eth0"}, "13cc0ed9-e802-5eaa-b4c7-3441855e31f2", "host:Open vSwitch agent:eth0"},
		{Name{"host", NICSwitch, "eth0"}, "5762cf50-781b-5f01-8ebc-0cce8c9e74cd", "host:NIC Switch agent:eth0"},
		{Name{"host0", OpenVSwitch, ""}, "1ee45262-b239-51f3-939e-ff7fd2b6bd15", "host0:Open vSwitch agent"},
		{Name{"host0", OpenVSwitch, "eth0"}, "a0ac60fc-0e33-5e4e-aaf7-639618267663", "host0:Open vSwitch agent:eth0"},
		{Name{"host0", OVN, ""}, "b8350a3e-88b1-526b-a5fc-b0c19c9e3759", "host0:OVN Controller agent"},
		{Name{"host0", OVN, "eth0"}, "5471036e-c6e2-58d9-accb-56d74e0f125e", "host0:OVN Controller agent:eth0"},
	} {
		if got := row.name.ID(); got != row.id {
			t.Errorf("%v: %s, want %s", row.name, got, row.id)
		}
		if got := row.name.String(); got != row.text {
			t.Errorf("%q, want %q", got, row.text)
		}
		if back, ok := Recognise(provider.Provider{Name: row.text, ID: row.id}); !ok || back != row.name {
			t.Errorf("%s is recognised as %v, %v", row.text, back, ok)
		}
	}
	const space = "00000000-0000-0000-0000-000000000001"
	for name, id := range map[string]provider.ID{
		"fakehost":              "c0b4abe5-516f-54b8-b965-ff94060dcbcc",
		"fakehost2":             "544155b7-1295-5f10-b5f0-eadc50abc6d4",
		"fakehost:eth0":         "1ea6f823-bcf2-5dc5-9bee-4ee6177a6451",
		"fakehost:rp_tunnelled": "357001cb-88b4-5e1d-ae6e-85b238a7a83e",
	} {
		if got := provider.IDFromName(space, name); got != id {
			t.Errorf("%s: %s, want %s", name, got, id)
		}
	}
}

func TestOtherProvidersAreNotRecognised(t *testing.T) {
	right := Name{"host", OpenVSwitch, "eth0"}
	for _, p := range []provider.Provider{
		{Name: right.String(), ID: "791f63f0-1a1a-5c38-8972-5e43014fd58b"}, // the ID of another name
		{Name: "host:NIC Switch agent:eth0", ID: right.ID()},               // the ID of another agent type
		{Name: "host", ID: right.ID()},
		{Name: "host:Linux bridge agent:eth0", ID: right.ID()},
		{Name: "host:Open vSwitch agent:eth0:1", ID: right.ID()},
		{Name: "host:Open vSwitch agent:", ID: Name{"host", OpenVSwitch, ""}.ID()},
		{Name: ":Open vSwitch agent", ID: Name{"", OpenVSwitch, ""}.ID()},
		{Name: "host_0000:81:00.0", ID: right.ID()},
	} {
		if n, ok := Recognise(p); ok {
			t.Errorf("%s with ID %s is recognised as %v", p.Name, p.ID, n)
		}
	}
}

package schedule_test

import (
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// A device with physical_network serves ports of its network and no alias, also if the alias has its class; a port gets
// a device of the provider that Placement has chosen, and never a device of an alias.
func TestPortsAndAliasesGetTheirOwnDevices(t *testing.T) {
	network := "a"
	nic := func(bus uint8, providerID provider.ID) pci.Offered {
		pf := pci.Address{Bus: bus}
		return pci.Offered{Device: pci.Device{Address: pci.Address{Bus: bus, Func: 1}, Type: pci.Virtual, Parent: &pf},
			ResourceClass: pci.PortVF, Provider: providerID, State: pci.Available, ForPorts: true,
			PortTags: pci.PortTags{PhysicalNetwork: &network}}
	}
	aliasVF := nic(3, "pf3")
	aliasVF.ForPorts, aliasVF.PhysicalNetwork = false, nil
	host := schedule.Host{Name: "h", Provider: "root", InPlacement: true, Seen: time.Unix(0, 0),
		Devices: []pci.Offered{nic(1, "pf1"), nic(2, "pf2"), aliasVF}}
	port := func(name string) pci.Request {
		return pci.Request{ID: "r-" + name, Count: 1, Requirement: pci.Requirement{Class: pci.PortVF},
			Port: &pci.PortNeeds{ID: name, PhysicalNetworks: []string{"a"}}}
	}
	alias := pci.Request{ID: "r-alias", Alias: "x", Count: 1, Requirement: pci.Requirement{Class: pci.PortVF}}
	other := port("p")
	other.Port.PhysicalNetworks = []string{"b"}
	for name, c := range map[string]struct {
		requests []pci.Request
		from     []provider.ID // for each request; empty: Placement has not chosen
		want     string        // part of the refusal; empty: accepted
	}{
		"a port":                        {[]pci.Request{port("p")}, []provider.ID{"pf1"}, ""},
		"two ports on two NICs":         {[]pci.Request{port("p"), port("q")}, []provider.ID{"pf1", "pf2"}, ""},
		"two ports on one VF":           {[]pci.Request{port("p"), port("q")}, []provider.ID{"pf1", "pf1"}, "fewer than 2"},
		"two ports, Placement not used": {[]pci.Request{port("p"), port("q")}, []provider.ID{"", ""}, ""},
		"three ports": {[]pci.Request{port("p"), port("q"), port("r")}, []provider.ID{"", "", ""},
			"fewer than 3"},
		"a port on a device of aliases": {[]pci.Request{port("p")}, []provider.ID{"pf3"}, "no physical_network"},
		"a port of another network":     {[]pci.Request{other}, []provider.ID{"pf1"}, "physical_network is a, not b"},
		"an alias with the class":       {[]pci.Request{alias}, []provider.ID{"pf1"}, "for network ports only"},
		"an alias":                      {[]pci.Request{alias}, []provider.ID{"pf3"}, ""},
	} {
		mappings := map[string][]provider.ID{}
		for i, r := range c.requests {
			if c.from[i] != "" {
				mappings[r.GroupSuffix(0)] = []provider.ID{c.from[i]}
			}
		}
		input := schedule.Input{Hosts: map[provider.ID]schedule.Host{"root": host}, Now: host.Seen,
			Silence: schedule.Silence, Candidates: []schedule.Candidate{{Root: "root", Mappings: mappings}}}
		choices, refusals := schedule.Choose(input, c.requests, 1)
		var text string
		for _, r := range refusals {
			text += r.Reason + "; " + r.Nearest
		}
		if (len(choices) == 1) != (c.want == "") || !strings.Contains(text, c.want) {
			t.Errorf("%s: %d choices, %q, want %q", name, len(choices), text, c.want)
		}
	}
}

package pci

import (
	"strings"
	"testing"
)

// The device of a port has the class of its vnic type, and its rule names one of the physical networks.
func TestWhyNotPort(t *testing.T) {
	network := func(name string) PortTags { return PortTags{PhysicalNetwork: &name} }
	trusted, remote := network("a"), network("a")
	trusted.Trusted, remote.RemoteManaged = true, true
	for _, c := range []struct {
		kind  Type
		tags  PortTags
		needs PortNeeds
		want  string // of a request for a VF; empty: the device fits
	}{
		{Virtual, network("a"), PortNeeds{PhysicalNetworks: []string{"a"}}, ""},
		{Virtual, network("a"), PortNeeds{PhysicalNetworks: []string{"b", "a"}}, ""},
		{Virtual, network("a"), PortNeeds{PhysicalNetworks: []string{"c", "b"}}, "physical_network is a, not b or c"},
		{Virtual, network(""), PortNeeds{PhysicalNetworks: []string{""}}, ""},
		{Virtual, network("a"), PortNeeds{PhysicalNetworks: []string{""}}, "physical_network is a, not null"},
		{Virtual, network(""), PortNeeds{PhysicalNetworks: []string{"a"}}, "physical_network is null, not a"},
		{Virtual, PortTags{}, PortNeeds{PhysicalNetworks: []string{""}}, "not for network ports"},
		{Plain, network("a"), PortNeeds{PhysicalNetworks: []string{"a"}}, "of class CUSTOM_PCI_NETDEV, not SRIOV_NET_VF"},
		{Physical, network("a"), PortNeeds{PhysicalNetworks: []string{"a"}}, "of class CUSTOM_PCI_NETDEV"},
		{VDPA, network("a"), PortNeeds{PhysicalNetworks: []string{"a"}}, "of class CUSTOM_VDPA_NETDEV"},
		{Virtual, network("a"), PortNeeds{PhysicalNetworks: []string{"a"}, Trusted: true}, "does not have trusted"},
		{Virtual, trusted, PortNeeds{PhysicalNetworks: []string{"a"}, Trusted: true}, ""},
		{Virtual, trusted, PortNeeds{PhysicalNetworks: []string{"a"}}, ""},
		{Virtual, network("a"), PortNeeds{PhysicalNetworks: []string{"a"}, RemoteManaged: true}, "remote_managed"},
		{Virtual, remote, PortNeeds{PhysicalNetworks: []string{"a"}, RemoteManaged: true}, ""},
		{Virtual, remote, PortNeeds{PhysicalNetworks: []string{"b"}, RemoteManaged: true}, "physical_network is a, not b"},
		{Virtual, remote, PortNeeds{PhysicalNetworks: []string{"a"}}, "remote_managed of its rule is true"},
		{Virtual, PortTags{RemoteManaged: true}, PortNeeds{PhysicalNetworks: []string{""}, RemoteManaged: true}, ""},
	} {
		r := Request{Requirement: Requirement{Class: PortVF}, Port: &c.needs}
		got := r.WhyNotPort(Device{Type: c.kind, Serial: "S1", PFMAC: "52:54:00:00:00:01"}, c.tags)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s %+v for %+v: %q, want %q", c.kind, c.tags, c.needs, got, c.want)
		}
	}
	r := Request{Requirement: Requirement{Class: PortVF}, Port: &PortNeeds{RemoteManaged: true}}
	for _, d := range []Device{{Type: Virtual, Serial: "S1"}, {Type: Virtual, PFMAC: "52:54:00:00:00:01"}} {
		if got := r.WhyNotPort(d, remote); !strings.Contains(got, "is unknown") {
			t.Errorf("%+v: %q", d, got)
		}
	}
}

package pci

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/openberth/berth/resource"
)

// The resource classes of devices for network ports. Specification 002, "Neutron SR-IOV ports", names SRIOV_NET_VF,
// PCI_NETDEV and VDPA_NETDEV; Placement has only the first as a standard class, and refuses the others.
const (
	PortVF   resource.Class = "SRIOV_NET_VF"
	PortNIC  resource.Class = "CUSTOM_PCI_NETDEV" // a whole NIC or PF
	PortVDPA resource.Class = "CUSTOM_VDPA_NETDEV"
)

// PortClass returns the resource class of a device for network ports.
func PortClass(d Device) resource.Class {
	switch d.Type {
	case Virtual:
		return PortVF
	case VDPA:
		return PortVDPA
	}
	return PortNIC
}

// PortTags are the properties of a device for network ports, from the rule that offers it.
type PortTags struct {
	PhysicalNetwork *string // its name, or an empty text for null; nil: the rule has no physical_network
	RemoteManaged   bool
	Trusted         bool
}

// ForPort returns the properties of the rule's devices for network ports.
func (t Tags) ForPort() PortTags {
	out := PortTags{RemoteManaged: t.RemoteManaged == Yes, Trusted: t.Trusted == Yes}
	if t.Networked {
		name := t.PhysicalNetwork
		out.PhysicalNetwork = &name
	}
	return out
}

// WhyNotPort returns the reason why a device does not fit the request of a network port, or "". A remote-managed device
// without physical_network is one of tunnelled networks. The request must have a Port.
func (r Request) WhyNotPort(d Device, tags PortTags) string {
	class, network := PortClass(d), tags.network()
	switch {
	case tags.PhysicalNetwork == nil && !tags.RemoteManaged:
		return "its rule has no physical_network, so it is not for network ports"
	case class != r.Requirement.Class:
		return fmt.Sprintf("it is a %s of class %s, not %s", d.Type, class, r.Requirement.Class)
	case len(r.Port.PhysicalNetworks) > 0 && !slices.Contains(r.Port.PhysicalNetworks, network):
		return fmt.Sprintf("its physical_network is %s, not %s", networkText(network), r.Port.networks())
	case r.Port.RemoteManaged != tags.RemoteManaged:
		return fmt.Sprintf("remote_managed of its rule is %t", tags.RemoteManaged)
	case r.Port.RemoteManaged && (d.Serial == "" || d.PFMAC == ""):
		return "the serial number of its card or the MAC address of its PF is unknown, by which the card finds the VF; " +
			"bind the PF to its driver for networks, and run a recent agent as root"
	case r.Port.Trusted && !tags.Trusted:
		return "its rule does not have trusted, which the port requires"
	}
	return ""
}

func (t PortTags) network() string {
	if t.PhysicalNetwork == nil {
		return ""
	}
	return *t.PhysicalNetwork
}

// networks lists the physical networks of a port for a message.
func (n PortNeeds) networks() string {
	var names []string
	for _, name := range n.PhysicalNetworks {
		names = append(names, networkText(name))
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), " or ")
}

func networkText(name string) string { return cmp.Or(name, "null") }

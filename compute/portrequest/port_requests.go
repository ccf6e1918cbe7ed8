// Package portrequest computes what the network ports of a server request: groups of resources from Placement, and
// devices of the host.
//
// A port with guarantees has the groups of its resource_request. A port of a vnic type that needs a device has one more
// group, of a standard resource class, if Placement counts the devices of ports. All groups of a port are in one
// same_subtree, so its bandwidth and its device come from one NIC (docs/network-differences.md).
package portrequest

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// The resource classes of the devices of ports.
const (
	VirtualFunction = pci.PortVF
	WholeNIC        = pci.PortNIC
	VDPA            = pci.PortVDPA
)

// Port is what a request depends on.
type Port struct {
	ID       string
	VNICType string
	// PhysicalNetworks has one element for each segment of the network: its physical network, or an empty text for a
	// segment without one.
	PhysicalNetworks []string
	Groups           []Group  // of its resource_request
	SameSubtree      []string // ids of groups, of its resource_request
	NUMAPolicy       string   // numa_affinity_policy; empty: that of the flavor
	Trusted          bool     // binding:profile trusted
}

// Group is a group of a resource_request. ID is empty in the format before the extension port-resource-request-groups.
type Group struct {
	ID        string
	Required  [][]resource.Trait // of each element, the provider has at least one
	Resources resource.Amounts
}

// ParseRequired parses an element of a group's list required: a trait, or "in:" with several ones, separated by commas,
// of which the provider has at least one.
func ParseRequired(element string) []resource.Trait {
	list, several := strings.CutPrefix(element, "in:")
	if !several {
		return []resource.Trait{resource.Trait(element)}
	}
	var traits []resource.Trait
	for one := range strings.SplitSeq(list, ",") {
		traits = append(traits, resource.Trait(strings.TrimSpace(one)))
	}
	return traits
}

// Options are the options of compute that affect requests.
type Options struct {
	DevicesInPlacement bool // Placement counts the devices of ports, so they are requested from it
}

// Request is what the ports of a server request together.
type Request struct {
	Groups       []resource.Group // in the order of the ports
	SameSubtrees [][]string
	RootRequired []resource.Trait
	Devices      []pci.Request // one for each port that needs a device, in the order of the ports
}

// Make returns the request of ports. It returns fault.Invalid for a port that no host can serve.
func Make(ports []Port, o Options) (r Request, err error) {
	for _, p := range ports {
		groups := p.guarantees()
		var subtree []string
		for _, g := range groups {
			if len(p.SameSubtree) == 0 || slices.Contains(p.SameSubtree, g.Suffix) {
				subtree = append(subtree, g.Suffix)
			}
		}
		device, needed, err := p.device()
		if err != nil {
			return Request{}, err
		}
		if needed {
			r.Devices = append(r.Devices, device)
			if device.Port.RemoteManaged && len(r.RootRequired) == 0 {
				r.RootRequired = []resource.Trait{RemotePorts}
			}
			if o.DevicesInPlacement {
				groups = append(groups, p.deviceGroup(device))
				r.SameSubtrees = append(r.SameSubtrees, oneNIC(groups[:len(groups)-1], device.GroupSuffix(0))...)
				subtree = append(subtree, device.GroupSuffix(0))
			}
		}
		r.Groups = append(r.Groups, groups...)
		if len(subtree) > 1 {
			slices.Sort(subtree)
			r.SameSubtrees = append(r.SameSubtrees, subtree)
		}
	}
	return r, nil
}

// oneNIC returns a same_subtree for each guarantee and the device, if there are several guarantees: the packet rate is
// on a provider above several NICs, so a single list would allow the bandwidth of one and the device of another.
func oneNIC(guarantees []resource.Group, device string) (subtrees [][]string) {
	for _, g := range guarantees {
		if len(guarantees) > 1 {
			subtrees = append(subtrees, []string{device, g.Suffix})
		}
	}
	return subtrees
}

// guarantees returns the groups of the port's resource_request, without amounts of 0. A group that is empty then is
// left out: its traits alone request nothing.
func (p Port) guarantees() (groups []resource.Group) {
	for _, g := range p.Groups {
		amounts := maps.Clone(g.Resources)
		maps.DeleteFunc(amounts, func(_ resource.Class, n int) bool { return n == 0 })
		if len(amounts) == 0 {
			continue
		}
		groups = append(groups, resource.Group{Suffix: cmp.Or(g.ID, p.ID), Resources: amounts,
			Required: slices.Clone(g.Required)})
	}
	return groups
}

// withoutDevice are the vnic types whose ports need no device of the host: a switch connects them.
var withoutDevice = []string{"normal", "smart-nic", ""}

// classes are the classes of the vnic types whose ports need a device.
var classes = map[string]resource.Class{"direct": VirtualFunction, "macvtap": VirtualFunction,
	"virtio-forwarder": VirtualFunction, remoteManaged: VirtualFunction, "direct-physical": WholeNIC, "vdpa": VDPA}

// remoteManaged is the vnic type of ports on VFs that the system of their card binds.
const remoteManaged = "remote-managed"

// RemotePorts is the trait of the root providers whose agents report how the card of such a VF finds it.
const RemotePorts resource.Trait = "COMPUTE_REMOTE_MANAGED_PORTS"

// CheckVNICType returns fault.Invalid if no server can have a port of a vnic type.
func CheckVNICType(port, vnicType string) error {
	if _, device := classes[vnicType]; !device && !slices.Contains(withoutDevice, vnicType) {
		return fault.New(fault.Invalid, "port %s has the vnic type %s, which no server of "+
			"Berth can have; use normal, direct, macvtap, direct-physical, virtio-forwarder, vdpa or remote-managed", port,
			vnicType)
	}
	return nil
}

// Class returns the resource class of the device that a port of a vnic type needs. ok is false if it needs none.
func Class(vnicType string) (class resource.Class, ok bool) {
	class, ok = classes[vnicType]
	return class, ok
}

// IsDeviceClass reports whether a class is that of devices of ports.
func IsDeviceClass(c resource.Class) bool {
	return slices.Contains(slices.Collect(maps.Values(classes)), c)
}

// VNICTypes returns the vnic types of ports that need a device of a class, sorted; nil if it is another class.
func VNICTypes(c resource.Class) (types []string) {
	for _, vnic := range slices.Sorted(maps.Keys(classes)) {
		if classes[vnic] == c {
			types = append(types, vnic)
		}
	}
	return types
}

// device returns the port's request of a device. needed is false if the port needs none.
func (p Port) device() (r pci.Request, needed bool, err error) {
	if err := CheckVNICType(p.ID, p.VNICType); err != nil {
		return r, false, err
	}
	class, needed := Class(p.VNICType)
	if !needed {
		return r, false, nil
	}
	r = pci.Request{ID: deviceID(p.ID), Count: 1, Policy: pci.NUMAPolicy(p.NUMAPolicy),
		Requirement: pci.Requirement{Class: class},
		Port: &pci.PortNeeds{ID: p.ID, PhysicalNetworks: slices.Clone(p.PhysicalNetworks),
			RemoteManaged: p.VNICType == remoteManaged, Trusted: p.Trusted}}
	return r, true, nil
}

// deviceID returns the id of a port's device request: a UUID of version 5 in the name space of the port, so that it is
// the same whenever the request is built.
func deviceID(port string) string { return string(provider.IDFromName(provider.ID(port), "device")) }

// deviceGroup returns the group of a device request: a device of the physical networks, for the vnic type.
func (p Port) deviceGroup(device pci.Request) resource.Group {
	g := resource.Group{Suffix: device.GroupSuffix(0), Resources: resource.Amounts{device.Requirement.Class: 1}}
	if networks := networkTraits(p.PhysicalNetworks); len(networks) > 0 {
		g.Required = append(g.Required, networks)
	}
	g.Required = append(g.Required, []resource.Trait{bandwidth.VNICTrait(p.VNICType)})
	return g
}

// networkTraits returns the traits of physical networks, each once; an empty name is a tunnelled network.
func networkTraits(names []string) (traits []resource.Trait) {
	for _, name := range names {
		trait := bandwidth.Tunnel
		if name != "" {
			trait = bandwidth.PhysnetTrait(name)
		}
		if !slices.Contains(traits, trait) {
			traits = append(traits, trait)
		}
	}
	return traits
}

// Add adds the request of ports to the request of a flavor and its image. With two or more groups with a suffix
// Placement needs a group_policy; a flavor without one gets PolicyNone. It returns fault.Conflict if a group of the
// flavor has the suffix of a port's group.
func Add(ask resource.Ask, r Request) (resource.Ask, error) {
	ask.Groups, ask.SameSubtree = slices.Clone(ask.Groups), slices.Clone(ask.SameSubtree)
	for _, g := range r.Groups {
		if slices.ContainsFunc(ask.Groups, func(o resource.Group) bool { return o.Suffix == g.Suffix }) {
			return resource.Ask{}, fault.New(fault.Conflict, "the flavor and a port both have a request "+
				"group %s; rename that of the flavor", g.Suffix)
		}
		ask.Groups = append(ask.Groups, g)
	}
	ask.SameSubtree = append(ask.SameSubtree, r.SameSubtrees...)
	for _, trait := range r.RootRequired {
		if !slices.Contains(ask.RootRequired, trait) {
			ask.RootRequired = append(slices.Clone(ask.RootRequired), trait)
		}
	}
	if ask.GroupPolicy == resource.PolicyUnset && ask.Suffixed() >= 2 {
		ask.GroupPolicy = resource.PolicyNone
	}
	return ask, nil
}

// WithoutUnknown returns a request without traits that Placement does not have, as far as they are alternatives: no
// host has a physical network of the trait, and one of another segment of the network may serve the port. changed is
// false if it removes none.
func WithoutUnknown(ask resource.Ask, unknown []resource.Trait) (out resource.Ask, changed bool) {
	isUnknown := func(t resource.Trait) bool { return slices.Contains(unknown, t) }
	out = ask
	out.Groups = slices.Clone(ask.Groups)
	for i, g := range out.Groups {
		required := slices.Clone(g.Required)
		for n, oneOf := range required {
			known := slices.DeleteFunc(slices.Clone(oneOf), isUnknown)
			if len(known) > 0 && len(known) < len(oneOf) {
				required[n], changed = known, true
			}
		}
		out.Groups[i].Required = required
	}
	return out, changed
}

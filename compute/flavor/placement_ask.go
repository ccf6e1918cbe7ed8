package flavor

import (
	"slices"

	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// Options are the configuration options that affect request groups.
type Options struct {
	PCIInPlacement bool // [filter_scheduler] pci_in_placement: ask Placement for devices
}

// Ask returns the request to Placement and the device requests of a server with this flavor and image. newID returns a
// new UUID for each device request. The server's NUMA cells are returned by Topology.
//
// The unsuffixed group has VCPU, MEMORY_MB and DISK_GB (root, ephemeral and swap, rounded up), except classes that an
// extra spec `resources…:CLASS` names. `resources:` and `trait:` change the unsuffixed group, `resourcesS:` and
// `traitS:` define group S. Each device of `pci_passthrough:alias` becomes a group with the suffix
// "<request_id>-<index>"; without PCIInPlacement only device requests are returned. group_policy is "none" if it is
// needed and not set.
//
// A dedicated CPU (hw:cpu_policy) is a PCPU instead of a VCPU; a separate emulator thread is one more PCPU. Traits of
// the host (those of the image, HW_CPU_HYPERTHREADING for the thread policy, COMPUTE_SOCKET_PCI_NUMA_AFFINITY for
// devices with the policy socket) are required of the unsuffixed group, or of the root provider if that group has no
// resources.
//
// A value that is not valid yields a fault of kind Invalid that names the extra spec (Nova logs and ignores some of
// them). An image that contradicts the flavor yields a fault of kind Invalid, or Forbidden for devices.
func Ask(f Flavor, i Image, aliases pci.Aliases, o Options, newID func() string) (resource.Ask, []pci.Request, error) {
	groups := groups{}
	if err := groups.read(f.ExtraSpecs); err != nil {
		return resource.Ask{}, nil, err
	}
	cpus, err := readCPUs(f, i)
	if err != nil {
		return resource.Ask{}, nil, err
	}
	parts, err := topology(f, i, cpus)
	if err != nil {
		return resource.Ask{}, nil, err
	}
	requests, socket, err := requests(f, i, aliases, newID)
	if err != nil {
		return resource.Ask{}, nil, err
	}
	groups.addDefaults(f, cpus)
	required, forbidden := cpus.traits()
	ofImage, err := i.traits()
	if err != nil {
		return resource.Ask{}, nil, err
	}
	required = append(required, ofImage...)
	if socket && len(parts) > 0 { // without NUMA cells a policy means nothing
		required = append(required, socketAffinity)
	}
	ask, err := groups.ask(required, forbidden)
	if err != nil {
		return resource.Ask{}, nil, err
	}
	rest := ask.Groups
	if o.PCIInPlacement {
		ask.Groups = append(ask.Groups, deviceGroups(requests)...)
	}
	if len(ask.Groups) == 0 {
		return resource.Ask{}, nil, invalid("flavor %s requests no resources; set VCPUs, memory or disk", f.Name)
	}
	if ask.GroupPolicy, err = groupPolicy(f.ExtraSpecs, ask.Suffixed()); err == nil {
		err = checkSets(f, requests, rest, ask.GroupPolicy)
	}
	return ask, requests, err
}

// requests returns one request for each `alias:count`. A NUMA policy of the flavor or image overrides that of the
// alias; socket is true if it is the policy socket.
func requests(
	f Flavor, i Image, aliases pci.Aliases, newID func() string,
) (list []pci.Request, socket bool, err error) {
	text, err := numaPolicy(f, i)
	if err != nil {
		return nil, false, err
	}
	if list, err = aliases.Requests(f.ExtraSpecs[aliasSpec], newID); err != nil {
		return nil, false, err
	}
	if err := matchDevices(f, aliases, list); err != nil || text == "" {
		return list, false, err
	}
	for i := range list {
		list[i].Policy = pci.NUMAPolicy(text)
	}
	return list, len(list) > 0 && pci.NUMAPolicy(text) == pci.Socket, nil
}

// numaPolicy returns the NUMA policy of devices in the flavor and image, or an empty string.
func numaPolicy(f Flavor, i Image) (string, error) {
	return readSetting(f, i, affinitySpec).
		oneOf(string(pci.Required), string(pci.Legacy), string(pci.Preferred), string(pci.Socket))
}

// DeviceAffinity returns the NUMA policy of devices in the flavor and image for ports without a policy of their own;
// empty without one.
func DeviceAffinity(f Flavor, i Image) (pci.NUMAPolicy, error) {
	policy, err := numaPolicy(f, i)
	return pci.NUMAPolicy(policy), err
}

// deviceGroups returns one group for each device, so that each can come from a different provider.
func deviceGroups(requests []pci.Request) []resource.Group {
	var list []resource.Group
	for _, r := range requests {
		for i := range r.Count {
			g := resource.Group{
				Suffix:    r.GroupSuffix(i),
				Resources: resource.Amounts{r.Requirement.Class: 1},
				Forbidden: slices.Clone(r.Requirement.Forbidden),
			}
			for _, t := range r.Requirement.Required {
				g.Required = append(g.Required, []resource.Trait{t})
			}
			list = append(list, g)
		}
	}
	return list
}

// groupPolicy returns the group_policy of the flavor. Placement requires one with two or more suffixed groups; the
// default is then "none", the less restrictive one.
func groupPolicy(specs map[string]string, suffixed int) (resource.Policy, error) {
	text, set := specs[policySpec]
	policy := resource.Policy(text)
	switch {
	case set && policy != resource.PolicyNone && policy != resource.PolicyIsolate:
		return "", invalid("extra spec %s is %q; write none or isolate", policySpec, text)
	case set:
		return policy, nil
	case suffixed >= 2:
		return resource.PolicyNone, nil
	}
	return resource.PolicyUnset, nil
}

package flavor

import (
	"maps"
	"regexp"
	"slices"
	"strconv"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// The extra specs about devices and groups. Those about CPUs and NUMA are in cpus.go and topology.go. All others are
// stored and shown, without effect.
const (
	aliasSpec    = "pci_passthrough:alias"
	affinitySpec = "hw:pci_numa_affinity_policy"
	policySpec   = "group_policy"
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
	if o.PCIInPlacement {
		ask.Groups = append(ask.Groups, deviceGroups(requests)...)
	}
	if len(ask.Groups) == 0 {
		return resource.Ask{}, nil, invalid("flavor %s requests no resources; set VCPUs, memory or disk", f.Name)
	}
	ask.GroupPolicy, err = groupPolicy(f.ExtraSpecs, ask.Suffixed())
	return ask, requests, err
}

// invalid returns a fault of kind Invalid.
func invalid(format string, args ...any) error {
	return fault.New(fault.Invalid, "flavor.Ask", format, args...)
}

// socketAffinity is the trait of hosts that report the sockets of their NUMA nodes.
const socketAffinity resource.Trait = "COMPUTE_SOCKET_PCI_NUMA_AFFINITY"

// requests returns one request for each `alias:count`. A NUMA policy of the flavor or image overrides that of the
// alias; socket is true if it is the policy socket.
func requests(
	f Flavor, i Image, aliases pci.Aliases, newID func() string,
) (list []pci.Request, socket bool, err error) {
	text, err := numaPolicy(f, i)
	if err != nil {
		return nil, false, err
	}
	if list, err = aliases.Requests(f.ExtraSpecs[aliasSpec], newID); err != nil || text == "" {
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

// groups are the flavor's own groups by suffix.
type groups map[string]*group

// group is one request group of the flavor.
type group struct {
	amounts             resource.Amounts // includes zeros, which remove a default class
	required, forbidden []resource.Trait
	spec                string // an extra spec of the group, for messages
}

var groupSpec = regexp.MustCompile(`^(resources|trait)([a-zA-Z0-9_-]{0,64}):(.*)$`)

// read adds the groups of the extra specs.
func (gs groups) read(specs map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(specs)) {
		m := groupSpec.FindStringSubmatch(key)
		if m == nil {
			continue
		}
		g := gs.group(m[2], key)
		var err error
		if m[1] == "resources" {
			err = g.readAmount(key, resource.Class(m[3]), specs[key])
		} else {
			err = g.readTrait(key, resource.Trait(m[3]), specs[key])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// group returns the group with this suffix; it is created if necessary.
func (gs groups) group(suffix, spec string) *group {
	if gs[suffix] == nil {
		gs[suffix] = &group{amounts: resource.Amounts{}, spec: spec}
	}
	return gs[suffix]
}

// readAmount adds the amount of an extra spec resources…:CLASS.
func (g *group) readAmount(key string, class resource.Class, text string) error {
	if !resource.IsStandardClass(class) && !resource.IsCustom(string(class)) {
		return invalid("extra spec %s: %q is not a resource class; use a standard class or one that begins with CUSTOM_",
			key, class)
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n > resource.MaxAmount {
		return invalid("extra spec %s is %q; write a whole number from 0 to %d", key, text, resource.MaxAmount)
	}
	g.amounts[class] = int(n)
	return nil
}

// readTrait adds the trait of an extra spec trait…:TRAIT.
func (g *group) readTrait(key string, trait resource.Trait, text string) error {
	if !resource.IsStandardTrait(trait) && !resource.IsCustom(string(trait)) {
		return invalid("extra spec %s: %q is not a trait; use a standard trait or one that begins with CUSTOM_",
			key, trait)
	}
	switch text {
	case "required":
		g.required = append(g.required, trait)
	case "forbidden":
		g.forbidden = append(g.forbidden, trait)
	default:
		return invalid("extra spec %s is %q; write required or forbidden", key, text)
	}
	return nil
}

// addDefaults adds the flavor's CPUs, memory and disk to the unsuffixed group, except classes that any group names.
func (gs groups) addDefaults(f Flavor, c cpus) {
	own := resource.Amounts{"MEMORY_MB": f.MemoryMB, "DISK_GB": f.DiskGB + f.Ephemeral + (f.Swap+1023)/1024}
	if !c.inGroups {
		maps.Copy(own, c.amounts())
	}
	for _, g := range gs {
		for class := range g.amounts {
			delete(own, class)
		}
	}
	maps.Copy(gs.group("", "").amounts, own)
}

// ask returns the groups as a request: the unsuffixed one first, then sorted by suffix. required and forbidden are
// traits of the host.
func (gs groups) ask(required, forbidden []resource.Trait) (resource.Ask, error) {
	var ask resource.Ask
	own := gs.group("", "")
	own.dropZeros()
	if len(own.amounts) > 0 {
		own.required, own.forbidden = addTraits(own.required, required), addTraits(own.forbidden, forbidden)
	} else {
		ask.RootRequired, ask.RootForbidden = addTraits(nil, required), addTraits(nil, forbidden)
	}
	for _, suffix := range slices.Sorted(maps.Keys(gs)) {
		g := gs[suffix]
		g.dropZeros()
		if len(g.amounts) == 0 {
			if len(g.required)+len(g.forbidden) > 0 {
				return resource.Ask{}, invalid("extra spec %s belongs to a group without resources; add resources%s:<CLASS>",
					g.spec, suffix)
			}
			continue
		}
		out := resource.Group{Suffix: suffix, Resources: g.amounts, Forbidden: g.forbidden}
		for _, t := range g.required {
			if slices.Contains(g.forbidden, t) {
				return resource.Ask{}, invalid(
					"trait %s is both required and forbidden by the extra specs and the image; remove one of them", t)
			}
			out.Required = append(out.Required, []resource.Trait{t})
		}
		ask.Groups = append(ask.Groups, out)
	}
	return ask, nil
}

// dropZeros removes classes with the amount 0.
func (g *group) dropZeros() {
	maps.DeleteFunc(g.amounts, func(_ resource.Class, n int) bool { return n == 0 })
}

// addTraits appends the traits that the list lacks.
func addTraits(list, more []resource.Trait) []resource.Trait {
	for _, t := range more {
		if !slices.Contains(list, t) {
			list = append(list, t)
		}
	}
	return list
}

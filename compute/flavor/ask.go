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

// The extra specs about devices and groups. cpus.go and topology.go have those about CPUs and NUMA; all others are kept, shown, and
// mean nothing to Berth.
const (
	aliasSpec    = "pci_passthrough:alias"
	affinitySpec = "hw:pci_numa_affinity_policy"
	policySpec   = "group_policy"
)

// Options are the switches of the cloud.
type Options struct {
	PCIInPlacement bool // [filter_scheduler] pci_in_placement: ask Placement for devices
}

// Ask makes the question to Placement and the device requests of a server of this flavor and image. newID makes the request ids: UUIDs.
// Topology tells how its CPUs and memory lie.
//
// The unsuffixed group has VCPU, MEMORY_MB and DISK_GB (root, ephemeral and swap, rounded up), unless an extra spec
// `resources…:CLASS` names the class itself. `resources:`/`trait:` change the unsuffixed group, `resourcesS:`/`traitS:` make group
// S. Each device of `pci_passthrough:alias` becomes a group of its own, with the suffix "<request_id>-<index>" (spec
// 002, "Scheduling"); with PCIInPlacement off there are requests only. group_policy is "none" where it is needed and not said.
//
// A dedicated CPU (hw:cpu_policy) is a PCPU instead of a VCPU, a thread for the emulator alone one PCPU more. What is wanted of the host
// (traits of the image, HW_CPU_HYPERTHREADING by the thread policy, COMPUTE_SOCKET_PCI_NUMA_AFFINITY for devices under the policy
// socket) is asked of the unsuffixed group, or of the root where that one asks for nothing.
//
// What makes no sense is a fault of kind Invalid that names the extra spec: Nova logs it and goes on without. An image that
// wants otherwise than the flavor is so too; of devices it is Forbidden.
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
		return resource.Ask{}, nil, invalid("flavor %s asks for nothing at all", f.Name)
	}
	ask.GroupPolicy, err = groupPolicy(f.ExtraSpecs, ask.Suffixed())
	return ask, requests, err
}

func invalid(format string, args ...any) error {
	return fault.New(fault.Invalid, "flavor.Ask", format, args...)
}

// socketAffinity is borne by hosts that know the sockets of their NUMA nodes.
const socketAffinity resource.Trait = "COMPUTE_SOCKET_PCI_NUMA_AFFINITY"

// requests makes one request for each `alias:count`. A NUMA policy of the flavor or image is stronger than the alias'; socket: they say so.
func requests(f Flavor, i Image, aliases pci.Aliases, newID func() string) (list []pci.Request, socket bool, err error) {
	text, err := numaPolicy(f, i)
	if err != nil {
		return nil, false, err
	}
	if list, err = aliases.Requests(f.ExtraSpecs[aliasSpec], newID); err != nil || text == "" {
		return list, false, err
	}
	for i := range list {
		list[i].Policy = pci.Policy(text)
	}
	return list, len(list) > 0 && pci.Policy(text) == pci.Socket, nil
}

// policyOf is the NUMA policy of devices that flavor and image say, or nothing.
func numaPolicy(f Flavor, i Image) (string, error) {
	return readSetting(f, i, affinitySpec).oneOf(string(pci.Required), string(pci.Legacy), string(pci.Preferred), string(pci.Socket))
}

// deviceGroups makes one group for each device, so that each can come from a provider of its own.
func deviceGroups(requests []pci.Request) []resource.Group {
	var list []resource.Group
	for _, r := range requests {
		for i := range r.Count {
			g := resource.Group{Suffix: r.GroupSuffix(i), Resources: resource.Amounts{r.Want.Class: 1}, Forbidden: slices.Clone(r.Want.Forbidden)}
			for _, t := range r.Want.Required {
				g.Required = append(g.Required, []resource.Trait{t})
			}
			list = append(list, g)
		}
	}
	return list
}

// groupPolicy is what the flavor says. Placement wants it said with two suffixed groups or more; then "none", the
// freer one, is what a flavor that does not say it means.
func groupPolicy(specs map[string]string, suffixed int) (resource.Policy, error) {
	text, said := specs[policySpec]
	policy := resource.Policy(text)
	switch {
	case said && policy != resource.PolicyNone && policy != resource.PolicyIsolate:
		return "", invalid("extra spec %s is %q; write none or isolate", policySpec, text)
	case said:
		return policy, nil
	case suffixed >= 2:
		return resource.PolicyNone, nil
	}
	return resource.PolicyUnset, nil
}

// groups are the flavor's own groups by suffix.
type groups map[string]*group

type group struct {
	amounts             resource.Amounts // zeros included: they say that the class is not wanted
	required, forbidden []resource.Trait
	spec                string // an extra spec that named it, for the sentence
}

var groupSpec = regexp.MustCompile(`^(resources|trait)([a-zA-Z0-9_-]{0,64}):(.*)$`)

// read takes in the extra specs that make groups.
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

func (gs groups) group(suffix, spec string) *group {
	if gs[suffix] == nil {
		gs[suffix] = &group{amounts: resource.Amounts{}, spec: spec}
	}
	return gs[suffix]
}

func (g *group) readAmount(key string, class resource.Class, text string) error {
	if !resource.IsStandardClass(class) && !resource.IsCustom(string(class)) {
		return invalid("extra spec %s: %q is no resource class; a class of your own begins with CUSTOM_", key, class)
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n > resource.MaxAmount {
		return invalid("extra spec %s is %q; write a whole number from 0 to %d", key, text, resource.MaxAmount)
	}
	g.amounts[class] = int(n)
	return nil
}

func (g *group) readTrait(key string, trait resource.Trait, text string) error {
	if !resource.IsStandardTrait(trait) && !resource.IsCustom(string(trait)) {
		return invalid("extra spec %s: %q is no trait; a trait of your own begins with CUSTOM_", key, trait)
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

// defaults adds what the flavor has, to the unsuffixed group, but for classes that some group names.
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

// ask writes the groups down: the unsuffixed one first, then by suffix. required and forbidden are traits that are wanted of the host.
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
				return resource.Ask{}, invalid("extra spec %s belongs to a group that asks for no resources; add resources%s:<CLASS>", g.spec, suffix)
			}
			continue
		}
		out := resource.Group{Suffix: suffix, Resources: g.amounts, Forbidden: g.forbidden}
		for _, t := range g.required {
			if slices.Contains(g.forbidden, t) {
				return resource.Ask{}, invalid("trait %s is both required and forbidden by the extra specs and the image", t)
			}
			out.Required = append(out.Required, []resource.Trait{t})
		}
		ask.Groups = append(ask.Groups, out)
	}
	return ask, nil
}

// trim takes out what is not wanted.
func (g *group) dropZeros() {
	maps.DeleteFunc(g.amounts, func(_ resource.Class, n int) bool { return n == 0 })
}

// merged adds traits to a list, each once.
func addTraits(list, more []resource.Trait) []resource.Trait {
	for _, t := range more {
		if !slices.Contains(list, t) {
			list = append(list, t)
		}
	}
	return list
}

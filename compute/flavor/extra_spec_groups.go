package flavor

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// groups are the flavor's own groups by suffix.
type groups map[string]*group

// group is one request group of the flavor.
type group struct {
	amounts             resource.Amounts // includes zeros, which remove a default class
	required, forbidden []resource.Trait
	spec                string // an extra spec of the group, for messages
}

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
		return noName("extra spec "+key, "resource class", class, resource.StandardClasses())
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n > resource.MaxAmount {
		return invalid("extra spec %s is %q; write a whole number from 0 to %d", key, text, resource.MaxAmount)
	}
	g.amounts[class] = int(n)
	return nil
}

// noName is the fault of a name of a kind that is neither a standard one nor a custom one.
func noName[T ~string](where, kind string, name T, standard []T) error {
	known := make([]string, len(standard))
	for i, one := range standard {
		known[i] = string(one)
	}
	return invalid("%s: %q is not a %s; %s", where, string(name), kind, fault.DidYouMean(string(name), known,
		"use a standard one, or one that begins with CUSTOM_"))
}

// readTrait adds the trait of an extra spec trait…:TRAIT.
func (g *group) readTrait(key string, trait resource.Trait, text string) error {
	if !resource.IsStandardTrait(trait) && !resource.IsCustom(string(trait)) {
		return noName("extra spec "+key, "trait", trait, resource.StandardTraits())
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
				remedy := "add resources" + suffix + ":<CLASS>"
				if own, plural := strings.CutPrefix(suffix, "s"); plural && gs[own] != nil {
					remedy = "write trait" + own + ": without s"
				}
				return resource.Ask{}, invalid("extra spec %s belongs to a group without resources; %s", g.spec, remedy)
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

package flavor

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// CheckRebuild returns a fault of kind Invalid if a server cannot be rebuilt from an image on its host: a rebuild
// claims nothing, so the claim for the image before must be valid for the image after. The NUMA cells and the NUMA
// policy of devices must not change; Nova does not check the policy. more lists the traits that the image requires and
// that the request to Placement did not contain: the caller must check that the host has them.
func CheckRebuild(f Flavor, before, after Image) (more []resource.Trait, err error) {
	if err := checkSameClaim(f, before, after); err != nil {
		return nil, err
	}
	has, forbidden, err := hostTraits(f, before)
	if err != nil {
		return nil, err
	}
	wants, err := after.traits()
	if err != nil {
		return nil, err
	}
	for _, t := range wants {
		if slices.Contains(forbidden, t) {
			return nil, invalid(
				"trait %s is both required and forbidden by the extra specs and the image; remove one of them", t)
		}
		if !slices.Contains(has, t) {
			more = append(more, t)
		}
	}
	return more, nil
}

// checkSameClaim returns a fault if the images need different NUMA cells or a different NUMA policy of devices.
func checkSameClaim(f Flavor, before, after Image) error {
	cells, err := Topology(f, before)
	if err != nil {
		return err
	}
	parts, err := Topology(f, after)
	if err != nil {
		return err
	}
	policy, err := devicePolicy(f, before)
	if err != nil {
		return err
	}
	wanted, err := devicePolicy(f, after)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(cells, parts) || len(parts) > 0 && policy != wanted {
		return invalid("An instance's NUMA topology cannot be changed as part of a rebuild. "+
			"The image provided is invalid for this instance: %s", strings.Join(changes(f, before, after), "; "))
	}
	return nil
}

// devicePolicy returns the NUMA policy of devices in the flavor and image; it is empty without devices.
func devicePolicy(f Flavor, i Image) (string, error) {
	if f.ExtraSpecs[aliasSpec] == "" {
		return "", nil
	}
	return numaPolicy(f, i)
}

// hostTraits returns the traits of the host that a flavor and an image require and forbid.
func hostTraits(f Flavor, i Image) (required, forbidden []resource.Trait, err error) {
	c, err := readCPUs(f, i)
	if err != nil {
		return nil, nil, err
	}
	policy, err := devicePolicy(f, i)
	if err != nil {
		return nil, nil, err
	}
	ofImage, err := i.traits()
	if err != nil {
		return nil, nil, err
	}
	required, forbidden = c.traits()
	required = append(required, ofImage...)
	if policy == string(pci.Socket) {
		required = append(required, socketAffinity)
	}
	for key, value := range f.ExtraSpecs {
		name, ok := strings.CutPrefix(key, "trait:")
		switch {
		case ok && value == "required":
			required = append(required, resource.Trait(name))
		case ok && value == "forbidden":
			forbidden = append(forbidden, resource.Trait(name))
		}
	}
	return required, forbidden, nil
}

// changes describes the differences of the constraints of two images.
func changes(f Flavor, before, after Image) []string {
	values := func(i Image) map[string]string {
		out := map[string]string{}
		for _, c := range Constraints(f, i) {
			out[c.Key] = c.Value
		}
		return out
	}
	old, now := values(before), values(after)
	keys := maps.Clone(old)
	maps.Copy(keys, now)
	var list []string
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		switch was, is := old[key], now[key]; {
		case was == is || strings.HasPrefix(key, "trait:"):
		case was == "":
			list = append(list, fmt.Sprintf("image property %s is %q, and the server was created without it",
				imageKey(key), is))
		case is == "":
			list = append(list, fmt.Sprintf("image property %s was %q, and the image does not have it",
				imageKey(key), was))
		default:
			list = append(list, fmt.Sprintf("image property %s is %q, and the server was created with %q",
				imageKey(key), is, was))
		}
	}
	return list
}

// AskAfterRebuild returns the request to Placement for the next move of a server that has been rebuilt from another
// image: traits that only the image before required are removed, and those of the image after are added. CheckRebuild
// has accepted the image, so the rest is unchanged.
func AskAfterRebuild(f Flavor, before, after Image, ask resource.Ask) resource.Ask {
	gone, err1 := before.traits()
	stays, _, err2 := hostTraits(f, after)
	more, err3 := CheckRebuild(f, before, after)
	if err1 != nil || err2 != nil || err3 != nil {
		return ask
	}
	drop := func(t resource.Trait) bool { return slices.Contains(gone, t) && !slices.Contains(stays, t) }
	ask.RootRequired = slices.DeleteFunc(slices.Clone(ask.RootRequired), drop)
	ask.Groups = slices.Clone(ask.Groups)
	for n, g := range ask.Groups {
		if g.Suffix != "" {
			continue
		}
		g.Required = slices.DeleteFunc(slices.Clone(g.Required), func(any []resource.Trait) bool {
			return len(any) == 1 && drop(any[0])
		})
		for _, t := range more {
			g.Required = append(g.Required, []resource.Trait{t})
		}
		ask.Groups[n] = g
		return ask
	}
	ask.RootRequired = addTraits(ask.RootRequired, more)
	return ask
}

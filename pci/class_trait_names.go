package pci

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// deviceClasses are the standard classes that count devices. The others count threads, bytes or bandwidth, so they
// are a mistake for the provider of a device.
var deviceClasses = []resource.Class{"PCI_DEVICE", "SRIOV_NET_VF", "VGPU", "VGPU_DISPLAY_HEAD", "FPGA", "PGPU"}

var (
	illegal = regexp.MustCompile(`[^A-Z0-9]+`)  // replaced by Nova in a name that becomes custom
	foreign = regexp.MustCompile(`[^A-Z0-9_]+`) // not accepted by Placement in a name with CUSTOM_
	usable  = regexp.MustCompile(`[A-Z0-9]`)
)

// ClassFor returns the class of a device whose rule or alias has none: CUSTOM_PCI_<vendor_id>_<product_id> in upper
// case.
func ClassFor(vendor, product string) resource.Class {
	return resource.Class(strings.ToUpper("CUSTOM_PCI_" + vendor + "_" + product))
}

// NormalClass converts a class name from the configuration to a class of Placement. Standard names are recognized in
// any case. Any other name becomes CUSTOM_ followed by upper-case letters, digits and single underscores; a name
// that begins with CUSTOM_ keeps its underscores.
//
// The error is Invalid if the name has no letter or digit, is too long, is a standard class that does not count
// devices, or is a list: a device has exactly one class.
func NormalClass(text string) (resource.Class, error) {
	if strings.Contains(text, ",") {
		return "", fault.New(fault.Invalid, "resource_class %q has a comma, but a device has one class; name "+
			"one, and write the others as traits", text)
	}
	name := strings.ToUpper(strings.TrimSpace(text))
	if class := resource.Class(name); resource.IsStandardClass(class) {
		if !slices.Contains(deviceClasses, class) {
			return "", fault.New(fault.Invalid,
				"resource_class %q does not count devices; name one that does, such as PGPU, or a name of your "+
					"own", text)
		}
		return class, nil
	}
	custom, problem := customName(name)
	if problem != "" {
		return "", fault.New(fault.Invalid, "resource_class %q %s", text, problem)
	}
	return resource.Class(custom), nil
}

// NormalTrait converts a trait name as NormalClass converts a class.
func NormalTrait(text string) (resource.Trait, error) {
	name := strings.ToUpper(strings.TrimSpace(text))
	if trait := resource.Trait(name); resource.IsStandardTrait(trait) {
		return trait, nil
	}
	custom, problem := customName(name)
	if problem != "" {
		return "", fault.New(fault.Invalid, "trait %q %s", text, problem)
	}
	return resource.Trait(custom), nil
}

// customName returns the custom name for an upper-case word, or the problem with it.
func customName(name string) (custom, problem string) {
	own, prefixed := strings.CutPrefix(name, "CUSTOM_")
	if !usable.MatchString(own) {
		return "", "has no letter or digit; write letters, digits and underscores"
	}
	if prefixed {
		custom = "CUSTOM_" + foreign.ReplaceAllString(own, "_")
	} else {
		custom = "CUSTOM_" + illegal.ReplaceAllString(name, "_")
	}
	if !resource.IsCustom(custom) {
		return "", fmt.Sprintf("becomes a name of %d characters; Placement accepts at most 255", len(custom))
	}
	return custom, ""
}

// traits parses a comma-separated list of trait names into sorted sets. A name with "!" is forbidden; this is
// allowed only in an alias, so a rule passes false for mayForbid.
func traits(text string, mayForbid bool) (required, forbidden []resource.Trait, err error) {
	for word := range strings.SplitSeq(text, ",") {
		word = strings.TrimSpace(word)
		name, not := strings.CutPrefix(word, "!")
		if not && !mayForbid {
			return nil, nil, fault.New(fault.Invalid,
				"traits %q forbids %q, but a device can only have traits; \"!\" is valid only in an alias", text, name)
		}
		if strings.TrimSpace(name) == "" {
			return nil, nil, fault.New(fault.Invalid, "traits %q has an empty name in it; write names with one "+
				"comma between them", text)
		}
		trait, err := NormalTrait(name)
		if err != nil {
			return nil, nil, fault.New(fault.Invalid, "traits %q: %s", text, fault.TextOf(err))
		}
		if not {
			forbidden = append(forbidden, trait)
		} else {
			required = append(required, trait)
		}
	}
	required, forbidden = sorted(required), sorted(forbidden)
	for _, trait := range forbidden {
		if slices.Contains(required, trait) {
			return nil, nil, fault.New(fault.Invalid, "traits %q both requires and forbids %s; keep "+
				"one", text, trait)
		}
	}
	return required, forbidden, nil
}

func sorted(list []resource.Trait) []resource.Trait {
	slices.Sort(list)
	return slices.Compact(list)
}

// joined is the inverse of traits.
func joined(required, forbidden []resource.Trait) string {
	var words []string
	for _, trait := range required {
		words = append(words, string(trait))
	}
	for _, trait := range forbidden {
		words = append(words, "!"+string(trait))
	}
	return strings.Join(words, ",")
}

// Nearest returns the known word that differs from a mistyped one in at most two letters, or "".
func Nearest(word string, known []string) string {
	if near := fault.Similar(word, known, 2); len(near) > 0 {
		return near[0]
	}
	return ""
}

// suggest returns the end of a sentence: the known word nearest to a mistyped one or, if none is near, the known
// words.
func suggest(word string, known []string) string {
	if best := Nearest(word, known); best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	if len(known) == 0 {
		return "there is none"
	}
	const most = 15
	return "there are " + strings.Join(known[:min(len(known), most)], ", ")
}

package cli

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/openberth/berth/resource"
)

// spec is an extra spec of a request group.
type spec struct {
	kind   string // resources or trait
	suffix string // of the group; empty: the unsuffixed one
	name   string // class or trait
}

var groupSpec = regexp.MustCompile(`^(resources|trait)([a-zA-Z0-9_-]{0,64}):(.*)$`)

// parseSpec reads the key of an extra spec; ok is false for another extra spec.
func parseSpec(key string) (s spec, ok bool) {
	m := groupSpec.FindStringSubmatch(key)
	if m == nil {
		return s, false
	}
	return spec{kind: m[1], suffix: m[2], name: m[3]}, true
}

// addTo adds the extra spec with a value to its group; false: the value is not valid.
func (s spec) addTo(g *resource.Group, value string) bool {
	switch {
	case s.kind == "resources":
		n, err := strconv.Atoi(value)
		if err == nil && n > 0 {
			g.Resources[resource.Class(s.name)] = n
		}
		return err == nil && n >= 0
	case value == "required":
		g.Required = append(g.Required, []resource.Trait{resource.Trait(s.name)})
		return true
	case value == "forbidden":
		g.Forbidden = append(g.Forbidden, resource.Trait(s.name))
		return true
	}
	return false
}

// slotTrait matches the traits that agents generate for I/O slots of PowerVM from hexadecimal numbers, and similar
// ones.
var slotTrait = regexp.MustCompile(`^CUSTOM_POWERVM_IOSLOT_(VENDOR_ID|DEVICE_ID|PRODUCT_ID|SUBSYS_VENDOR_ID|` +
	`SUBSYS_DEVICE_ID|CLASS|REVISION_ID|DRC_INDEX)_(.*)$`)

// slotDigits are the numbers of hexadecimal digits of these traits.
var slotDigits = map[string]int{"VENDOR_ID": 4, "DEVICE_ID": 4, "SUBSYS_VENDOR_ID": 4, "SUBSYS_DEVICE_ID": 4,
	"CLASS": 4, "REVISION_ID": 2, "DRC_INDEX": 8}

// lintSpecs returns a sentence about each extra spec that Placement or a scheduler would refuse, ignore or never meet.
func lintSpecs(specs map[string]string) (findings []string) {
	add := func(key, format string, args ...any) {
		findings = append(findings, key+": "+fmt.Sprintf(format, args...))
	}
	resources := map[string]bool{} // groups with resources; the others have a finding of their own
	for _, key := range sortedKeys(specs) {
		if s, ok := parseSpec(key); ok && s.kind == "resources" && specs[key] != "0" {
			resources[s.suffix] = true
		}
	}
	for _, key := range sortedKeys(specs) {
		s, ok := parseSpec(key)
		if !ok {
			continue
		}
		var ignored resource.Group
		ignored.Resources = resource.Amounts{}
		rest, plural := strings.CutPrefix(s.suffix, "s")
		switch {
		case s.kind == "trait" && plural && !resources[s.suffix]:
			add(key, "the group %q has no resources, and older schedulers ignore the trait; write trait%s:%s", s.suffix, rest,
				s.name)
		case s.suffix != "" && !resources[s.suffix]:
			add(key, "the group %q has no resources; add resources%s:CLASS, or write the trait into a group that has", s.suffix,
				s.suffix)
		case !s.addTo(&ignored, specs[key]):
			add(key, "the value %q is not valid; write %s", specs[key],
				map[string]string{"resources": "a whole number", "trait": "required or forbidden"}[s.kind])
		}
		if s.kind == "trait" {
			lintSlotTrait(s.name, func(format string, args ...any) { add(key, format, args...) })
		}
	}
	delete(resources, "")
	if len(resources) > 1 && specs["group_policy"] == "" {
		add("group_policy", "it is missing with %d groups, and Placement refuses that from other schedulers than Berth's; "+
			"write none or isolate", len(resources))
	}
	if policy := specs["group_policy"]; policy != "" && policy != "none" && policy != "isolate" {
		add("group_policy", "the value %q is not valid; write none or isolate", policy)
	}
	return findings
}

// doublePrefix begins a trait that normalizes a DRC name with the prefix CUSTOM_, as a literal reading of the
// specification has it (C5).
const doublePrefix = "CUSTOM_POWERVM_IOSLOT_DRC_NAME_CUSTOM_"

// lintSlotTrait reports a trait of an I/O slot that no agent generates.
func lintSlotTrait(name string, add func(format string, args ...any)) {
	if rest, double := strings.CutPrefix(name, doublePrefix); double {
		add("no agent generates this trait; write %s%s", strings.TrimSuffix(doublePrefix, "CUSTOM_"), rest)
	}
	m := slotTrait.FindStringSubmatch(name)
	if m == nil {
		return
	}
	digits := slotDigits[m[1]]
	switch {
	case m[1] == "PRODUCT_ID":
		add("no agent generates this trait; the id of a device is in CUSTOM_POWERVM_IOSLOT_DEVICE_ID_%s", m[2])
	case len(m[2]) != digits:
		add("%q has %d digits and no slot has the trait; write %d", m[2], len(m[2]), digits)
	case strings.Trim(m[2], "0123456789ABCDEF") != "":
		add("%q is not hexadecimal, so no slot has the trait; use the digits 0 to 9 and A to F", m[2])
	}
}

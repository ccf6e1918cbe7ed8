package ioslot

import (
	"strings"

	"github.com/openberth/berth/resource"
)

// traitPrefix begins the traits that the agent generates from the properties of a slot.
const traitPrefix = "CUSTOM_POWERVM_IOSLOT_"

// Traits returns the generated traits of a slot, in the order of Keys: one for each reported property (R30). A trait
// that would be longer than Placement allows is left out.
func (s Slot) Traits() (list []resource.Trait) {
	for _, k := range Keys() {
		text, ok := s.Property(k)
		if !ok {
			continue
		}
		name := TraitPrefix(k) + normalize(text)
		if resource.IsCustom(name) {
			list = append(list, resource.Trait(name))
		}
	}
	return list
}

// TraitPrefix returns what the generated traits of a key begin with.
func TraitPrefix(k Key) string { return traitPrefix + strings.ToUpper(string(k)) + "_" }

// IsGenerated reports whether only the agent may write a trait: it begins like the generated traits of a key.
func IsGenerated(t resource.Trait) bool {
	for _, k := range Keys() {
		if strings.HasPrefix(string(t), TraitPrefix(k)) {
			return true
		}
	}
	return false
}

// normalize replaces each run of characters that are not ASCII letters or digits by one "_", and changes the rest to
// upper case. Unlike the function of os-traits it puts no CUSTOM_ before the result (C5).
func normalize(text string) string {
	var b strings.Builder
	inRun := false
	for _, r := range text {
		plain := r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z'
		switch {
		case plain:
			b.WriteRune(r)
		case !inRun:
			b.WriteByte('_')
		}
		inRun = !plain
	}
	return strings.ToUpper(b.String())
}

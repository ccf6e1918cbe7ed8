package resource

import (
	_ "embed"
	"slices"
	"strings"
)

// The standard classes in the order of os-resource-classes 1.1.0, which gives them their ids in Placement's database.
//
//go:embed os_resource_classes.txt
var classNames string

// The standard traits of os-traits 3.9.0, sorted; a superset of those of every earlier release.
//
//go:embed os_traits.txt
var traitNames string

var (
	standardClasses = words[Class](classNames)
	standardTraits  = words[Trait](traitNames)
	isStandardClass = set(standardClasses)
	isStandardTrait = set(standardTraits)
)

// StandardClasses returns the classes that every Placement has, in the order of their database ids.
func StandardClasses() []Class { return slices.Clone(standardClasses) }

// StandardTraits returns the traits that every Placement has, sorted.
func StandardTraits() []Trait { return slices.Clone(standardTraits) }

// IsStandardClass reports whether the class is a standard one. Case matters, as in Placement.
func IsStandardClass(c Class) bool { return isStandardClass[c] }

// IsStandardTrait reports whether the trait is a standard one. Case matters, as in Placement.
func IsStandardTrait(t Trait) bool { return isStandardTrait[t] }

func words[T ~string](text string) []T {
	var out []T
	for word := range strings.FieldsSeq(text) {
		out = append(out, T(word))
	}
	return out
}

func set[T comparable](list []T) map[T]bool {
	out := make(map[T]bool, len(list))
	for _, v := range list {
		out[v] = true
	}
	return out
}

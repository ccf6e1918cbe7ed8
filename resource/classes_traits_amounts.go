// Package resource defines the types of Placement: classes, traits, amounts, inventories, allocations and requests
// for candidates.
//
// They use OpenStack Placement's own terms and are independent of HTTP, SQL and JSON.
package resource

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Class is a resource class: a standard one such as VCPU, or CUSTOM_ followed by A-Z, 0-9 and _.
type Class string

// Trait is a property of a provider: a standard one such as HW_CPU_X86_AVX, or CUSTOM_….
type Trait string

// ProviderID is the UUID of a resource provider. Package provider names it provider.ID.
type ProviderID string

// AggregateID is the UUID of a Placement aggregate.
type AggregateID string

// ConsumerID is the UUID of the owner of an allocation: a server, a migration.
type ConsumerID string

// MaxAmount is the largest total, amount or limit that Placement's API accepts (its database columns are 32 bits wide).
const MaxAmount = 2147483647

var customName = regexp.MustCompile(`^CUSTOM_[A-Z0-9_]+$`)

// IsCustom reports whether a class or trait name is a well-formed custom one of at most 255 characters.
func IsCustom(name string) bool { return len(name) <= 255 && customName.MatchString(name) }

// Amounts maps a class to a whole number of units.
type Amounts map[Class]int

// Sorted returns the classes in alphabetical order, for deterministic output.
func (a Amounts) Sorted() []Class { return slices.Sorted(maps.Keys(a)) }

// Positive returns the amounts above 0: Placement stores no others.
func (a Amounts) Positive() Amounts {
	out := Amounts{}
	for class, n := range a {
		if n > 0 {
			out[class] = n
		}
	}
	return out
}

// ByName returns the amounts with the classes as texts, as documents have them. It is never nil.
func (a Amounts) ByName() map[string]int {
	out := make(map[string]int, len(a))
	for class, n := range a {
		out[string(class)] = n
	}
	return out
}

// String returns `CLASS:n,CLASS:n` in alphabetical order, the form of Placement's `resources` parameter.
func (a Amounts) String() string {
	parts := make([]string, 0, len(a))
	for _, c := range a.Sorted() {
		parts = append(parts, string(c)+":"+strconv.Itoa(a[c]))
	}
	return strings.Join(parts, ",")
}

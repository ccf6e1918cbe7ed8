// Package resource defines the types of Placement: classes, traits, amounts, inventories, allocations and requests
// for candidates.
//
// They use OpenStack Placement's own terms and are independent of HTTP, SQL and JSON.
package resource

import (
	"fmt"
	"maps"
	"math"
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

// String returns `CLASS:n,CLASS:n` in alphabetical order, the form of Placement's `resources` parameter.
func (a Amounts) String() string {
	parts := make([]string, 0, len(a))
	for _, c := range a.Sorted() {
		parts = append(parts, string(c)+":"+strconv.Itoa(a[c]))
	}
	return strings.Join(parts, ",")
}

// Inventory is the amount of one class that a provider has, and how it can be allocated. The class defines the unit
// (VCPU: threads, MEMORY_MB: MiB, DISK_GB: GiB, device classes: devices).
type Inventory struct {
	Total           int
	Reserved        int
	MinUnit         int
	MaxUnit         int
	StepSize        int
	AllocationRatio float64
}

// Whole returns an inventory of n indivisible units with Placement's defaults for all other fields.
func Whole(n int) Inventory {
	return Inventory{Total: n, MinUnit: 1, MaxUnit: n, StepSize: 1, AllocationRatio: 1}
}

// Capacity returns (total - reserved) * allocation_ratio, rounded down as Placement does.
func (i Inventory) Capacity() int {
	c := float64(i.Total-i.Reserved) * i.AllocationRatio
	if c >= math.MaxInt {
		return math.MaxInt
	}
	return int(c)
}

// Fits reports whether amount more units can be allocated when used units are allocated: Placement's rule for both
// candidates and claims.
func (i Inventory) Fits(used, amount int) bool {
	return i.Shape(amount) && used+amount <= i.Capacity()
}

// Widened returns the inventory with a total that is large enough for the usage and with limits that allow the
// amount. An inventory that has enough room is returned unchanged.
func (i Inventory) Widened(used, amount int) Inventory {
	i.MaxUnit = max(i.MaxUnit, amount)
	if i.Capacity() >= used || i.AllocationRatio <= 0 {
		return i
	}
	least := float64(used) / i.AllocationRatio
	if least > MaxAmount { // Placement accepts no total that is large enough
		return i
	}
	for i.Total = i.Reserved + int(least); i.Capacity() < used && i.Total < MaxAmount; i.Total++ {
	}
	return i
}

// Shape reports whether the inventory's min_unit, max_unit and step_size allow an amount.
func (i Inventory) Shape(amount int) bool {
	return amount >= i.MinUnit && amount <= i.MaxUnit && amount%i.StepSize == 0
}

// Refuse returns the reason why amount more units cannot be allocated, or "" if they can.
func (i Inventory) Refuse(used, amount int) string {
	switch {
	case i.Fits(used, amount):
		return ""
	case amount < i.MinUnit:
		return fmt.Sprintf("asks %d, the smallest share is %d", amount, i.MinUnit)
	case amount > i.MaxUnit:
		return fmt.Sprintf("asks %d, the largest share is %d", amount, i.MaxUnit)
	case amount%i.StepSize != 0:
		return fmt.Sprintf("asks %d, shares come in steps of %d", amount, i.StepSize)
	case i.Reserved > 0:
		return fmt.Sprintf("asks %d, %d of %d free (%d "+
			"reserved)", amount, max(i.Capacity()-used, 0), i.Capacity(), i.Reserved)
	default:
		return fmt.Sprintf("asks %d, %d of %d free", amount, max(i.Capacity()-used, 0), i.Capacity())
	}
}

// Allocation is the allocation of one consumer: amounts by provider.
type Allocation map[ProviderID]Amounts

// Equal reports whether two allocations are equal; a provider without amounts counts as absent.
func (a Allocation) Equal(b Allocation) bool { return a.covers(b) && b.covers(a) }

// Sum returns the sum of the amounts of all providers.
func (a Allocation) Sum() Amounts {
	sum := Amounts{}
	for _, amounts := range a {
		for class, n := range amounts {
			sum[class] += n
		}
	}
	return sum
}

func (a Allocation) covers(b Allocation) bool {
	for id, amounts := range b {
		if len(amounts) > 0 && !maps.Equal(amounts, a[id]) {
			return false
		}
	}
	return true
}

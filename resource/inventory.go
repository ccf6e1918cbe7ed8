package resource

import (
	"fmt"
	"math"
)

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

// Refuse returns the reason why a claim cannot have amount more units, or "" if it can. used is the use without the
// allocations that the claim replaces, before is the use with them. A use above the capacity is allowed if it is not
// above before: the capacity may have become smaller than the use, and the claim does not make that worse.
func (i Inventory) Refuse(before, used, amount int) string {
	switch {
	case amount < i.MinUnit:
		return fmt.Sprintf("asks %d, the smallest share is %d", amount, i.MinUnit)
	case amount > i.MaxUnit:
		return fmt.Sprintf("asks %d, the largest share is %d", amount, i.MaxUnit)
	case amount%i.StepSize != 0:
		return fmt.Sprintf("asks %d, shares come in steps of %d", amount, i.StepSize)
	case used+amount <= max(i.Capacity(), before):
		return ""
	case i.Reserved > 0:
		return fmt.Sprintf("asks %d, %d of %d free (%d "+
			"reserved)", amount, max(i.Capacity()-used, 0), i.Capacity(), i.Reserved)
	default:
		return fmt.Sprintf("asks %d, %d of %d free", amount, max(i.Capacity()-used, 0), i.Capacity())
	}
}

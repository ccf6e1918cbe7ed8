package bandwidth

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/openberth/berth/resource"
)

// InventoryDefaults are the configured fields of inventories. A nil field is not configured and has Placement's
// default.
type InventoryDefaults struct {
	AllocationRatio                      *float64
	MinUnit, MaxUnit, StepSize, Reserved *int
}

// BuiltInDefaults returns the defaults of an agent whose configuration has none: indivisible units of 1 without a
// reserved amount.
func BuiltInDefaults() InventoryDefaults {
	ratio, one, step, none := 1.0, 1, 1, 0
	return InventoryDefaults{AllocationRatio: &ratio, MinUnit: &one, StepSize: &step, Reserved: &none}
}

// Inventory returns the inventory of a total with these defaults.
func (d InventoryDefaults) Inventory(total int) resource.Inventory {
	inv := resource.Inventory{Total: total, MinUnit: 1, MaxUnit: resource.MaxAmount, StepSize: 1, AllocationRatio: 1}
	for _, field := range []struct{ from, to *int }{{d.MinUnit, &inv.MinUnit}, {d.MaxUnit, &inv.MaxUnit},
		{d.StepSize, &inv.StepSize}, {d.Reserved, &inv.Reserved}} {
		if field.from != nil {
			*field.to = *field.from
		}
	}
	if d.AllocationRatio != nil {
		inv.AllocationRatio = *d.AllocationRatio
	}
	return inv
}

// inventoryFields are the keys of inventory defaults.
var inventoryFields = []string{"allocation_ratio", "max_unit", "min_unit", "reserved", "step_size"}

// ParseInventoryDefaults parses elements field:value of an option such as resource_provider_inventory_defaults. The
// result replaces all built-in defaults. There is one error for each wrong element, and one for fields that Placement
// would refuse together.
func ParseInventoryDefaults(elements []string) (d InventoryDefaults, wrong []error) {
	seen := map[string]bool{}
	for _, element := range elements {
		err := d.set(element, seen)
		if err != nil {
			wrong = append(wrong, err)
		}
	}
	if d.MinUnit != nil && d.MaxUnit != nil && *d.MinUnit > *d.MaxUnit {
		wrong = append(wrong, invalid("min_unit:"+strconv.Itoa(*d.MinUnit),
			"it is greater than max_unit %d; no amount could "+
				"be allocated, correct one of them", *d.MaxUnit))
	}
	return d, wrong
}

// set sets the field of one element.
func (d *InventoryDefaults) set(element string, seen map[string]bool) error {
	fields, err := split(element, 2, "field:value")
	if err != nil {
		return err
	}
	key, value := fields[0], fields[1]
	switch {
	case !slices.Contains(inventoryFields, key):
		return invalid(element, "there is no field %q; write one of %s", key, strings.Join(inventoryFields, ", "))
	case seen[key]:
		return invalid(element, "the field %s occurs twice; remove one of the elements", key)
	}
	seen[key] = true
	if key == "allocation_ratio" {
		ratio, err := strconv.ParseFloat(value, 64)
		if err != nil || ratio <= 0 || ratio > math.MaxFloat32 || math.IsNaN(ratio) {
			return invalid(element, "the ratio %q is not a number above 0; write one such as 1.0", value)
		}
		d.AllocationRatio = &ratio
		return nil
	}
	least := 1
	if key == "reserved" {
		least = 0
	}
	n, err := number(value)
	if err != nil || n < least {
		return invalid(element, "the value %q is not a whole number from %d to %d; correct it", value, least,
			resource.MaxAmount)
	}
	*map[string]**int{"min_unit": &d.MinUnit, "max_unit": &d.MaxUnit, "step_size": &d.StepSize,
		"reserved": &d.Reserved}[key] = &n
	return nil
}

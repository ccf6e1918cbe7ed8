package catalog

import (
	"cmp"
	"net/url"
	"slices"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/fault"
)

// flavorKeys compare two flavors by an attribute by which the list may be sorted. vcpu_weight is unset for all.
var flavorKeys = map[string]func(a, b flavor.Flavor) int{
	"description":  func(a, b flavor.Flavor) int { return cmp.Compare(a.Description, b.Description) },
	"disabled":     func(a, b flavor.Flavor) int { return compareBools(a.Disabled, b.Disabled) },
	"ephemeral_gb": func(a, b flavor.Flavor) int { return cmp.Compare(a.Ephemeral, b.Ephemeral) },
	"flavorid":     compareFlavorIDs,
	"id":           compareFlavorIDs,
	"is_public":    func(a, b flavor.Flavor) int { return compareBools(a.Public, b.Public) },
	"memory_mb":    func(a, b flavor.Flavor) int { return cmp.Compare(a.MemoryMB, b.MemoryMB) },
	"name":         func(a, b flavor.Flavor) int { return cmp.Compare(a.Name, b.Name) },
	"root_gb":      func(a, b flavor.Flavor) int { return cmp.Compare(a.DiskGB, b.DiskGB) },
	"rxtx_factor":  func(a, b flavor.Flavor) int { return cmp.Compare(a.RXTXFactor, b.RXTXFactor) },
	"swap":         func(a, b flavor.Flavor) int { return cmp.Compare(a.Swap, b.Swap) },
	"vcpu_weight":  func(flavor.Flavor, flavor.Flavor) int { return 0 },
	"vcpus":        func(a, b flavor.Flavor) int { return cmp.Compare(a.VCPUs, b.VCPUs) },
}

// noFlavorTimes are the sort keys of the Compute API that Berth cannot have.
var noFlavorTimes = map[string]bool{"created_at": true, "updated_at": true}

func compareFlavorIDs(a, b flavor.Flavor) int { return cmp.Compare(a.ID, b.ID) }

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// flavorOrder reads sort_key and sort_dir: the first key is the most important one, and the id decides between equal
// flavors. A key without a direction has the first direction. It returns nil for the order of the store: by id.
func flavorOrder(q url.Values) (func(a, b flavor.Flavor) int, error) {
	keys, directions := q["sort_key"], q["sort_dir"]
	for _, d := range directions {
		if d != "asc" && d != "desc" {
			return nil, fault.New(fault.Invalid, "Unknown sort direction, must be 'desc' or 'asc'; it is %q", edge.Clip(d))
		}
	}
	for _, key := range keys {
		if noFlavorTimes[key] {
			return nil, fault.New(fault.Invalid, "Invalid input for query parameters sort_key: Berth does not record when "+
				"flavors were created and changed, so they cannot be sorted by %s", key)
		}
		if flavorKeys[key] == nil {
			return nil, fault.New(fault.Invalid, "Invalid input for query parameters sort_key: flavors cannot be sorted by %q",
				edge.Clip(key))
		}
	}
	if len(keys) == 0 {
		keys = []string{"flavorid"}
	}
	if len(directions) == 0 {
		directions = []string{"asc"}
	}
	if len(directions) > len(keys) {
		return nil, fault.New(fault.Invalid, "Sort direction size exceeds sort key size")
	}
	if len(keys) == 1 && directions[0] == "asc" && (keys[0] == "flavorid" || keys[0] == "id") {
		return nil, nil
	}
	keys = append(slices.Clone(keys), "flavorid")
	return func(a, b flavor.Flavor) int {
		for i, key := range keys {
			direction := directions[0]
			if i < len(directions) {
				direction = directions[i]
			}
			if by := flavorKeys[key](a, b); by != 0 && direction == "desc" {
				return -by
			} else if by != 0 {
				return by
			}
		}
		return 0
	}, nil
}

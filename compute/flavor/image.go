package flavor

import (
	"maps"
	"slices"
	"strings"

	"github.com/openberth/berth/resource"
)

// Image is the part of an image that affects placement. If an image has not been looked up, only ID is set.
type Image struct {
	ID, Name   string
	MinRAM     int               // minimum memory of the flavor in MiB
	MinDisk    int               // minimum root disk in GiB
	Size       int64             // bytes; 0: unknown
	Properties map[string]string // such as hw_numa_nodes, or trait:HW_CPU_X86_AVX2 with the value required
}

// Fits returns nil if the flavor is large enough for the image, otherwise a fault of kind Invalid with the text of the
// Compute API. A root disk of 0 GiB has the size of the image.
func Fits(f Flavor, i Image) error {
	disk, least := int64(f.DiskGB)<<30, int64(i.MinDisk)<<30
	switch {
	case f.MemoryMB < i.MinRAM:
		return invalid("Flavor's memory is too small for requested image: flavor %s has %d MiB, image %s needs %d MiB",
			f.Name, f.MemoryMB, i.ID, i.MinRAM)
	case disk > 0 && i.Size > disk:
		return invalid("Flavor's disk is too small for requested image. "+
			"Flavor disk is %d bytes, image is %d bytes.", disk, i.Size)
	case disk > 0 && least > disk:
		return invalid("Flavor's disk is smaller than the minimum size specified in image metadata. "+
			"Flavor disk is %d bytes, minimum size is %d bytes.", disk, least)
	}
	return nil
}

// traits returns the traits that the image requires of a host: properties trait:NAME with the value required.
func (i Image) traits() ([]resource.Trait, error) {
	var list []resource.Trait
	for _, key := range slices.Sorted(maps.Keys(i.Properties)) {
		name, ok := strings.CutPrefix(key, "trait:")
		if !ok {
			continue
		}
		trait := resource.Trait(name)
		if !resource.IsStandardTrait(trait) && !resource.IsCustom(name) {
			return nil, noName("image property "+key, "trait", trait, resource.StandardTraits())
		}
		if i.Properties[key] != "required" {
			return nil, invalid("image property %s is %q; write required", key, i.Properties[key])
		}
		list = append(list, trait)
	}
	return list, nil
}

package flavor

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// Image is what a server starts from, as far as it has a say in where the server may lie. An image that is known by id only has none.
type Image struct {
	ID, Name   string
	MinRAM     int               // MiB that a flavor must have
	MinDisk    int               // GiB that the root disk must have
	Size       int64             // bytes; 0: not known
	Properties map[string]string // such as hw_numa_nodes, or trait:HW_CPU_X86_AVX2 with the value required
}

// Fits refuses a flavor that is too small for an image: a fault of kind Invalid that begins with the Compute API's words. A root disk of
// 0 GiB is as large as the image.
func Fits(f Flavor, i Image) error {
	disk, least := int64(f.DiskGB)<<30, int64(i.MinDisk)<<30
	switch {
	case f.MemoryMB < i.MinRAM:
		return invalid("Flavor's memory is too small for requested image: flavor %s has %d MiB, image %s needs %d MiB", f.Name, f.MemoryMB, i.ID, i.MinRAM)
	case disk > 0 && i.Size > disk:
		return invalid("Flavor's disk is too small for requested image. Flavor disk is %d bytes, image is %d bytes.", disk, i.Size)
	case disk > 0 && least > disk:
		return invalid("Flavor's disk is smaller than the minimum size specified in image metadata. Flavor disk is %d bytes, minimum size is %d bytes.", disk, least)
	}
	return nil
}

// wish is one thing that a flavor and an image may both say: "hw:cpu_policy" and "hw_cpu_policy".
type setting struct {
	key           string // of the flavor
	flavor, image string // what each says; empty: nothing
}

// wishes reads one wish by the flavor's key.
func readSetting(f Flavor, i Image, key string) setting {
	return setting{key: key, flavor: strings.TrimSpace(f.ExtraSpecs[key]), image: strings.TrimSpace(i.Properties[imageKey(key)])}
}

// imageKey is the image's name for an extra spec; of traits it is the same.
func imageKey(key string) string {
	if strings.HasPrefix(key, "trait:") {
		return key
	}
	return strings.Replace(key, ":", "_", 1)
}

// name is where the word of a wish comes from, for sentences.
func (w setting) source() string {
	if w.flavor == "" && w.image != "" {
		return "image property " + imageKey(w.key)
	}
	return "extra spec " + w.key
}

// word is what both say together, one of the known words or nothing. The image may not say otherwise than the flavor.
func (w setting) oneOf(known ...string) (string, error) {
	for _, said := range []setting{{key: w.key, flavor: w.flavor}, {key: w.key, image: w.image}} {
		text := said.flavor + said.image
		if text != "" && !slices.Contains(known, text) {
			return "", invalid("%s is %q; write one of %s", said.source(), text, strings.Join(known, ", "))
		}
	}
	if w.flavor != "" && w.image != "" && w.flavor != w.image {
		return "", w.forbidden()
	}
	return cmp.Or(w.flavor, w.image), nil
}

// forbidden is the fault of an image that wants otherwise than its flavor. Nova answers with 403 where it is about devices, else with 400.
func (w setting) forbidden() error {
	kind := fault.Invalid
	if w.key == affinitySpec {
		kind = fault.Forbidden
	}
	return fault.New(kind, "flavor.Ask", "image property %s is %q, and extra spec %s of the flavor is %q: the image may not override it",
		imageKey(w.key), w.image, w.key, w.flavor)
}

// traits are what an image requires of a host: properties trait:NAME with the value required.
func (i Image) traits() ([]resource.Trait, error) {
	var list []resource.Trait
	for _, key := range slices.Sorted(maps.Keys(i.Properties)) {
		name, ok := strings.CutPrefix(key, "trait:")
		if !ok {
			continue
		}
		trait := resource.Trait(name)
		if !resource.IsStandardTrait(trait) && !resource.IsCustom(name) {
			return nil, invalid("image property %s: %q is no trait; a trait of your own begins with CUSTOM_", key, name)
		}
		if i.Properties[key] != "required" {
			return nil, invalid("image property %s is %q; write required", key, i.Properties[key])
		}
		list = append(list, trait)
	}
	return list, nil
}

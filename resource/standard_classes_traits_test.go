package resource

import (
	"regexp"
	"slices"
	"testing"
)

func TestStandardNames(t *testing.T) {
	classes, traits := StandardClasses(), StandardTraits()
	if classes[0] != "VCPU" || classes[1] != "MEMORY_MB" || classes[2] != "DISK_GB" || len(classes) != 21 {
		t.Errorf("classes have another order than their database ids: %v", classes)
	}
	if !slices.IsSorted(traits) || len(slices.Compact(traits)) != 377 {
		t.Errorf("%d traits", len(traits))
	}
	legal := regexp.MustCompile(`^[A-Z0-9_]+$`)
	for _, c := range classes {
		if !legal.MatchString(string(c)) || !IsStandardClass(c) {
			t.Errorf("class %q", c)
		}
	}
	for _, tr := range StandardTraits() {
		if !legal.MatchString(string(tr)) || !IsStandardTrait(tr) {
			t.Errorf("trait %q", tr)
		}
	}
	for _, tr := range []Trait{"COMPUTE_MANAGED_PCI_DEVICE", "OWNER_NOVA", "HW_PCI_LIVE_MIGRATABLE",
		"HW_PCI_ONE_TIME_USE"} {
		if !IsStandardTrait(tr) {
			t.Errorf("%s is missing", tr)
		}
	}
	if IsStandardClass("vcpu") || IsStandardTrait("CUSTOM_A") || IsStandardClass("") {
		t.Error("too much is standard")
	}
	classes[0] = "X"
	if StandardClasses()[0] != "VCPU" {
		t.Error("the list can be changed from outside")
	}
}

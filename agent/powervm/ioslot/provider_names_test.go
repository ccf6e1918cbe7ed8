package ioslot

import (
	"testing"

	"github.com/openberth/berth/fault"
)

func TestProviderNames_R25_C7(t *testing.T) {
	for want, c := range map[string]struct {
		host  string
		index Index
	}{"PowerVM IOSlot 1C0FFEE1": {"", 470810337}, "PowerVM IOSlot 01234560": {"", 19088736},
		"PowerVM IOSlot cmp1.example.org 1C0FFEE1": {"cmp1.example.org", 470810337}} {
		name := ProviderName(c.host, c.index)
		host, index, ok, err := ParseProviderName(name)
		if name != want || host != c.host || index != c.index || !ok || err != nil {
			t.Errorf("%s: %q %v %v %v", name, host, index, ok, err)
		}
	}
}

func TestOtherFamiliesAreNotSlots_R28_C24(t *testing.T) {
	for _, name := range []string{"PowerVM PF 1C0FFEE1", "cmp1", "PowerVM IOSlotX1C0FFEE1", "PowerVM IOSlot",
		"powervm IOSlot 1C0FFEE1", " PowerVM IOSlot 1C0FFEE1"} {
		if _, _, ok, err := ParseProviderName(name); ok || err != nil {
			t.Errorf("%q: %v %v", name, ok, err)
		}
	}
}

func TestNameWithPrefixAndWithoutIndexIsAnError_R48(t *testing.T) {
	for _, name := range []string{"PowerVM IOSlot ", "PowerVM IOSlot 1c0ffee1", "PowerVM IOSlot a b 1C0FFEE1",
		"PowerVM IOSlot  1C0FFEE1", "PowerVM IOSlot 1C0FFEE", "PowerVM IOSlot cmp1 1C0FFEE1 "} {
		if _, _, ok, err := ParseProviderName(name); !ok || !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v %v", name, ok, err)
		}
	}
}

package pci

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/resource"
)

func TestNormalClass(t *testing.T) {
	for text, want := range map[string]resource.Class{
		"PGPU": "PGPU", "pgpu": "PGPU", " fpga ": "FPGA", "sriov_net_vf": "SRIOV_NET_VF",
		"foobar": "CUSTOM_FOOBAR", "custom_foo": "CUSTOM_FOO", "CUSTOM_foo": "CUSTOM_FOO", "CUSTOM_FOO": "CUSTOM_FOO",
		"custom-foo": "CUSTOM_CUSTOM_FOO", "a###b": "CUSTOM_A_B", "a__b": "CUSTOM_A_B", "CUSTOM_A__B": "CUSTOM_A__B",
		"-x":             "CUSTOM__X",
		"CUSTOM_foo-bar": "CUSTOM_FOO_BAR", // Nova makes it CUSTOM_FOO-BAR, which Placement does not accept
		"größe":          "CUSTOM_GR_E",
	} {
		if got, err := NormalClass(text); err != nil || got != want {
			t.Errorf("%q: %q %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"", " ", "---", "CUSTOM_", "custom___", "vcpu", "MEMORY_MB", "DISK_GB",
		"net_bw_egr_kilobit_per_sec", strings.Repeat("a", 249), "a,b", "CUSTOM_A, CUSTOM_B"} {
		if got, err := NormalClass(text); err == nil {
			t.Errorf("%q is accepted as %q", text, got)
		}
	}
	if got, err := NormalClass(strings.Repeat("a", 248)); err != nil || len(got) != 255 {
		t.Errorf("the longest name: %v", err)
	}
	if got := ClassFor("123a", "567b"); got != "CUSTOM_PCI_123A_567B" {
		t.Error(got)
	}
}

func TestNormalTrait(t *testing.T) {
	for text, want := range map[string]resource.Trait{
		"a": "CUSTOM_A", "HW_GPU_API_VULKAN": "HW_GPU_API_VULKAN", "hw_gpu_api_vulkan": "HW_GPU_API_VULKAN",
		"CUSTOM_FOO": "CUSTOM_FOO",
		"custom_bar": "CUSTOM_BAR", "CUSTOM_a": "CUSTOM_A", "custom-bar": "CUSTOM_CUSTOM_BAR", "a@!#$b123X": "CUSTOM_A_B123X",
		" big":     "CUSTOM_BIG",
		"pf-white": "CUSTOM_PF_WHITE", "to-the-moon": "CUSTOM_TO_THE_MOON", "CUSTOM_a-b": "CUSTOM_A_B",
	} {
		if got, err := NormalTrait(text); err != nil || got != want {
			t.Errorf("%q: %q %v, want %q", text, got, err, want)
		}
	}
	if got, err := NormalTrait("!"); err == nil {
		t.Errorf("%q", got)
	}
}

func TestSuggest(t *testing.T) {
	known := []string{"vendor_id", "product_id"}
	for word, want := range map[string]string{
		"vendorid": `did you mean "vendor_id"?`, "prodct_id": `did you mean "product_id"?`,
		"colour":                  "there are vendor_id, product_id",
		strings.Repeat("x", 1000): "there are vendor_id, product_id",
	} {
		if got := suggest(word, known); got != want {
			t.Errorf("%q: %q", word, got)
		}
	}
	if got := suggest("a", nil); got != "there is none" {
		t.Error(got)
	}
}

// FuzzNormal tests that every text results in a valid name of Placement or an error, and that the normal form of a
// normal name is the name itself.
func FuzzNormal(f *testing.F) {
	for _, seed := range []string{"", "a", "pgpu", "VCPU", "custom_x", "CUSTOM_a-b", "hw_gpu_api_vulkan", "é", "\xff", "ı",
		"-"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if class, err := NormalClass(text); err == nil {
			if again, err := NormalClass(string(class)); err != nil || again != class {
				t.Errorf("%q: %q, then %q %v", text, class, again, err)
			}
			if !resource.IsCustom(string(class)) && !resource.IsStandardClass(class) {
				t.Errorf("%q: %q is not valid in Placement", text, class)
			}
		}
		if trait, err := NormalTrait(text); err == nil {
			if again, err := NormalTrait(string(trait)); err != nil || again != trait {
				t.Errorf("%q: %q, then %q %v", text, trait, again, err)
			}
			if !resource.IsCustom(string(trait)) && !resource.IsStandardTrait(trait) {
				t.Errorf("%q: %q is not valid in Placement", text, trait)
			}
		}
	})
}

// TestNameRows tests the names of classes and traits (docs/behaviour/nova-pci.md 2.4, 2.5 and M7).
func TestNameRows(t *testing.T) {
	for _, c := range []struct{ row, class, traits, want string }{
		{"X2 a standard class", "pgpu", "", "PGPU"},
		{"X2 another name", "foobar", "", "CUSTOM_FOOBAR"},
		{"X2 a name with CUSTOM_", "custom_foo", "", "CUSTOM_FOO"},
		{"X2 a class with a dash", "custom-foo", "", "CUSTOM_CUSTOM_FOO"},
		{"X2 several signs in a class", "a###b", "", "CUSTOM_A_B"},
		{"M7 a dash in a class with CUSTOM_", "CUSTOM_foo-bar", "", "CUSTOM_FOO_BAR"},
		{"blanks around a class", " gold ", "", "CUSTOM_GOLD"},
		{"X2 no class", "", "", "CUSTOM_PCI_8086_1515"},
		{"X2 two traits", "", "b,a", "CUSTOM_PCI_8086_1515 CUSTOM_A CUSTOM_B"},
		{"M7 blanks around traits", "", "blue, big ,  ugly", "CUSTOM_PCI_8086_1515 CUSTOM_BIG CUSTOM_BLUE CUSTOM_UGLY"},
		{"M7 a standard trait in lower case", "", "hw_gpu_api_vulkan", "CUSTOM_PCI_8086_1515 HW_GPU_API_VULKAN"},
		{"X2 a standard trait", "", "HW_GPU_API_VULKAN", "CUSTOM_PCI_8086_1515 HW_GPU_API_VULKAN"},
		{"X2 traits with CUSTOM_", "", "CUSTOM_FOO,custom_bar,CUSTOM_a",
			"CUSTOM_PCI_8086_1515 CUSTOM_A CUSTOM_BAR CUSTOM_FOO"},
		{"X2 a trait with a dash", "", "custom-bar", "CUSTOM_PCI_8086_1515 CUSTOM_CUSTOM_BAR"},
		{"M7 a dash in a trait with CUSTOM_", "", "CUSTOM_a-b", "CUSTOM_PCI_8086_1515 CUSTOM_A_B"},
		{"X2 several signs in a trait", "", "a@!#$b123X", "CUSTOM_PCI_8086_1515 CUSTOM_A_B123X"},
		{"X2 two equal traits", "", "a!@b,a###b", "CUSTOM_PCI_8086_1515 CUSTOM_A_B"},
		{"I2 class and traits", "crypto", "to-the-moon,hodl", "CUSTOM_CRYPTO CUSTOM_HODL CUSTOM_TO_THE_MOON"},
	} {
		t.Run(c.row, func(t *testing.T) {
			r := rule(t, fmt.Sprintf(`{"resource_class":%q,"traits":%q}`, c.class, c.traits))
			words := []string{string(r.Class(vf(t, "0000:81:00.1", "0000:81:00.0")))}
			for _, trait := range r.Traits {
				words = append(words, string(trait))
			}
			if got := strings.Join(words, " "); got != c.want || !slices.IsSorted(words[1:]) {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

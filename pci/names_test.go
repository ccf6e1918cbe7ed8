package pci

import (
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

package cli

import (
	"strings"
	"testing"
)

// Each mistake of the examples in circulation is found, and a correct request has no finding.
func TestFlavorLint_C1_C4(t *testing.T) {
	const gpu, prefix = "resources1:CUSTOM_GPU", "trait1:CUSTOM_POWERVM_IOSLOT_"
	for _, c := range []struct {
		specs map[string]string
		want  []string // parts of the findings, in order
	}{
		{specs: map[string]string{gpu: "1", prefix + "VENDOR_ID_10DE": "required", prefix + "REVISION_ID_A1": "forbidden",
			prefix + "DRC_INDEX_1C0FFEE1": "required", prefix + "DRC_NAME_U78CB_001_WZS06S2_P1_C7": "required"}},
		{specs: map[string]string{gpu: "1", "resources2:CUSTOM_GPU": "1", "group_policy": "isolate"}},
		{specs: map[string]string{"hw:cpu_policy": "dedicated", "pci_passthrough:alias": "gpu:1"}},
		{specs: map[string]string{"resources:VCPU": "0", "trait:CUSTOM_FAST": "required"}},
		{specs: map[string]string{gpu: "1", "traits1:CUSTOM_POWERVM_IOSLOT_VENDOR_ID_10DE": "required"},
			want: []string{"write trait1:CUSTOM_POWERVM_IOSLOT_VENDOR_ID_10DE"}},
		{specs: map[string]string{gpu: "1", prefix + "PRODUCT_ID_F00D": "required"},
			want: []string{"CUSTOM_POWERVM_IOSLOT_DEVICE_ID_F00D"}},
		{specs: map[string]string{gpu: "1", prefix + "VENDOR_ID_G00D": "required"}, want: []string{"not hexadecimal"}},
		{specs: map[string]string{gpu: "1", prefix + "CLASS_030200": "required"}, want: []string{"has 6 digits"}},
		{specs: map[string]string{gpu: "1", "resources2:CUSTOM_GPU": "1"}, want: []string{"group_policy: it is missing"}},
		{specs: map[string]string{gpu: "1", "resources2:CUSTOM_GPU": "1", "group_policy": "strict"},
			want: []string{`group_policy: the value "strict" is not valid`}},
		{specs: map[string]string{gpu: "1", prefix + "DRC_NAME_CUSTOM_U1_P1": "required"},
			want: []string{"write CUSTOM_POWERVM_IOSLOT_DRC_NAME_U1_P1"}},
		{specs: map[string]string{"trait2:CUSTOM_FAST": "required"}, want: []string{`the group "2" has no resources`}},
		{specs: map[string]string{gpu: "one", "trait1:CUSTOM_FAST": "yes"}, want: []string{"a whole number",
			"required or forbidden"}},
	} {
		got := lintSpecs(c.specs)
		if len(got) != len(c.want) {
			t.Errorf("%v: %q, want %q", c.specs, got, c.want)
			continue
		}
		for i, part := range c.want {
			if !strings.Contains(got[i], part) {
				t.Errorf("%v: %q does not contain %q", c.specs, got[i], part)
			}
		}
	}
}

package resource

import "testing"

func TestIsCustom(t *testing.T) {
	for name, want := range map[string]bool{"CUSTOM_A": true, "CUSTOM_": false, "custom_a": false, "VCPU": false,
		"CUSTOM_A-B": false, "CUSTOM_A\n": false} {
		if IsCustom(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}

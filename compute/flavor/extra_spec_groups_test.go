package flavor

import (
	"strings"
	"testing"
)

// A mistyped class or trait of an extra spec or of an image gets a suggestion.
func TestMistypedClassesAndTraits(t *testing.T) {
	for key, want := range map[string]string{
		"resources:VGPUS":              `extra spec resources:VGPUS: "VGPUS" is not a resource class; did you mean VGPU`,
		"trait:HW_CPU_X86_AVX3":        `"HW_CPU_X86_AVX3" is not a trait; did you mean HW_CPU_X86_AVX`,
		"resources:SOMETHING_ELSE_YET": "use a standard one, or one that begins with CUSTOM_",
	} {
		if err := (groups{}).read(map[string]string{key: "required"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", key, err, want)
		}
	}
	image := Image{Properties: map[string]string{"trait:HW_CPU_X86_AVX3": "required"}}
	if _, err := image.traits(); err == nil || !strings.Contains(err.Error(), "did you mean HW_CPU_X86_AVX") {
		t.Error(err)
	}
}

package fault

import (
	"slices"
	"testing"
)

func TestSimilar(t *testing.T) {
	known := []string{"device_spec", "devname", "cmp1", "CMP2", "cmp10"}
	for _, c := range []struct {
		word   string
		within int
		want   []string
	}{
		{"devise_spec", 2, []string{"device_spec"}},
		{"DEVNAME", 0, []string{"devname"}},
		{"cmp", 2, []string{"cmp1", "CMP2", "cmp10"}},
		{"cmp10", 1, []string{"cmp10", "cmp1"}},
		{"", 3, []string{}},
		{"nothing", 2, []string{}},
	} {
		if got := Similar(c.word, known, c.within); !slices.Equal(got, c.want) {
			t.Errorf("%q within %d: %q, want %q", c.word, c.within, got, c.want)
		}
	}
}

package settings

import (
	"slices"
	"testing"

	"github.com/openberth/berth/fault"
)

func TestParseCPUs(t *testing.T) {
	for text, want := range map[string][]int{"0": {0}, "4-7,^6,15": {4, 5, 7, 15}, " 1 , 3-3 ,": {1, 3},
		"^2,0-3": {0, 1, 3}} {
		if got, err := ParseCPUs(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v %v", text, got, err)
		}
	}
	for _, text := range []string{"", "a", "3-1", "1-", "-1", "0-99999999", "1,^1", "^0"} {
		if got, err := ParseCPUs(text); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v %v", text, got, err)
		}
	}
}

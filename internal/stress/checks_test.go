package stress

import (
	"strings"
	"testing"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// TestViolations tests that violations finds each kind of error.
func TestViolations(t *testing.T) {
	w := world{"p": provider.Provider{ID: "p", Name: "p", Inventories: map[resource.Class]resource.Inventory{
		vf: resource.Whole(4)}}}
	for _, c := range []struct {
		name       string
		used, held int
		want       string
	}{
		{"no error", 4, 4, ""},
		{"over its capacity", 5, 5, "it has 4"},
		{"an allocation that is not counted", 1, 2, "add up to 2"},
		{"a usage without allocation", 2, 0, "add up to 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := strings.Join(w.violations(usage{used: map[provider.ID]resource.Amounts{"p": {vf: c.used}},
				held: map[resource.ConsumerID]resource.Allocation{"c": {"p": {vf: c.held}}}}), "; ")
			if got == "" != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("%q, wanted %q", got, c.want)
			}
		})
	}
}

// TestExpected tests which claims must and may exist, from the outcomes that their clients recorded.
func TestExpected(t *testing.T) {
	for _, c := range []struct {
		put, release outcome
		must, may    bool
	}{
		{yes, nothing, true, true},
		{yes, unclear, false, true},
		{yes, yes, false, false},
		{yes, no, false, false}, // an earlier release was unclear: it was executed
		{no, nothing, false, false},
		{unclear, nothing, false, true},
		{unclear, unclear, false, true},
		{unclear, yes, false, false},
		{unclear, no, false, true}, // the claim may have been executed later
	} {
		if must, may := (&claim{put: c.put, release: c.release}).expected(); must != c.must || may != c.may {
			t.Errorf("put %d, release %d: must %v, may %v", c.put, c.release, must, may)
		}
	}
}

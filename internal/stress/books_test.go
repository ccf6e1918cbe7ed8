package stress

import (
	"strings"
	"testing"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// The books find what is wrong with a world.
func TestBooksFindWhatIsWrong(t *testing.T) {
	w := world{"p": provider.Provider{ID: "p", Name: "p", Inventories: map[resource.Class]resource.Inventory{
		vf: resource.Whole(4)}}}
	for _, c := range []struct {
		what       string
		used, held int
		want       string
	}{
		{"well", 4, 4, ""},
		{"over its capacity", 5, 5, "it has 4"},
		{"an allocation that is not counted", 1, 2, "add up to 2"},
		{"a usage that nobody has", 2, 0, "add up to 0"},
	} {
		t.Run(c.what, func(t *testing.T) {
			got := strings.Join(w.addUp(picture{used: map[provider.ID]resource.Amounts{"p": {vf: c.used}},
				held: map[resource.ConsumerID]resource.Allocation{"c": {"p": {vf: c.held}}}}), "; ")
			if got == "" != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("%q, wanted %q", got, c.want)
			}
		})
	}
}

// What clients were told decides whether a claim must and may be there.
func TestOutcome(t *testing.T) {
	for _, c := range []struct {
		put, release word
		must, may    bool
	}{
		{yes, nothing, true, true},
		{yes, unclear, false, true},
		{yes, yes, false, false},
		{yes, no, false, false}, // an earlier release was unclear: it was carried out
		{no, nothing, false, false},
		{unclear, nothing, false, true},
		{unclear, unclear, false, true},
		{unclear, yes, false, false},
		{unclear, no, false, true}, // the claim may have been carried out later
	} {
		if must, may := (&claim{put: c.put, release: c.release}).outcome(); must != c.must || may != c.may {
			t.Errorf("put %d, release %d: must %v, may %v", c.put, c.release, must, may)
		}
	}
}

package candidate_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/openberth/berth/placement/candidate"
	"github.com/openberth/berth/placement/index"
)

func TestAllIsWhatTheTwinFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := drawWorld(t)
		ask := drawAsk(t, rows)
		want := twinAll(rows, ask)
		got := keys(candidate.All(index.Build(rows), ask))
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("ask %+v\nworld %+v\ngot  %q\nwant %q", ask, rows, got, want)
		}
	})
}

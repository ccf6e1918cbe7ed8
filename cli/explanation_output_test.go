package cli

import (
	"strings"
	"testing"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/resource"
)

func TestExplanationOutput(t *testing.T) {
	var b strings.Builder
	g := Globals{Stdout: &b, OutputFlags: OutputFlags{Output: "table"}}
	err := explain(&g, placement.Explanation{Reason: "all are taken",
		Funnel: []placement.ExplainFunnelRow{{Clause: "has A", Left: 3}}, Minimal: []string{"A:2"},
		Nearest: []placement.ExplainNearestMiss{{Host: "h", Deficits: []placement.ExplainDeficit{{Class: "A",
			Cause: "held", Asks: 2, Free: 1, Of: 4,
			Text: "A: asks 2, 1 of 4 free", HeldBy: []placement.ExplainHolder{{Name: "h_0000:3b:00.0",
				Consumers: []resource.ConsumerID{"c1", "c2"}}}}}}}}, names{"c1": "web"})
	if err != nil {
		t.Fatal(err)
	}
	want := "all are taken\nhosts left after each clause:\n       3  has A\nthese cannot hold together:\n  A:2\nnearest " +
		"misses:\n  h: A: asks 2, 1 of 4 free\n    h_0000:3b:00.0 is held by web, c2\n"
	if b.String() != want {
		t.Errorf("got\n%s", b.String())
	}
}

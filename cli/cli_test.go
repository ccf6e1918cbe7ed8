package cli

import (
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/resource"
)

func TestTableOutput(t *testing.T) {
	var b strings.Builder
	if err := PrintTable(&b, []string{"Name", "State"}, [][]string{{"a", "available"}, {"longer\x1b[2J", "-"}}); err !=
		nil {
		t.Fatal(err)
	}
	want := "NAME           STATE\na              available\nlonger\\x1b[2J  -\n"
	if b.String() != want {
		t.Errorf("got\n%q\nwant\n%q", b.String(), want)
	}
}

func TestQueryOf(t *testing.T) {
	got, err := queryOf([]string{"resources=VCPU:1&limit=2", "required=A", "required=!B"})
	if err != nil || got.Encode() != "limit=2&required=A&required=%21B&resources=VCPU%3A1" {
		t.Errorf("%v %v", got.Encode(), err)
	}
	for _, bad := range []string{"VCPU:1", "=1", "a=1&b"} {
		if _, err := queryOf([]string{bad}); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestPrintWhy(t *testing.T) {
	var b strings.Builder
	err := PrintWhy(&b, compute.Why{ID: "id", Name: "web", Status: "ERROR", Flavor: "f",
		Image: &compute.WhyImage{ID: "i", Name: "debian\x1b[2J"},
		Constraints: []compute.WhyConstraint{{Key: "hw:numa_nodes", Value: "2", Sources: []string{"extra spec hw:numa_nodes",
			"image property hw_numa_nodes"}}},
		Groups: []compute.WhyGroup{{Suffix: "r-0", Resources: map[string]int{"CUSTOM_A": 1}, Required: []string{"T"},
			Forbidden: []string{"U"}}},
		Fault: "No valid host was found: nothing fits.", History: []compute.WhyHistoryEntry{{Text: "asks", Times: 2}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`web (id) is ERROR: flavor f`, `made from image i ("debian\x1b[2J")`,
		`hw:numa_nodes is "2", from extra spec hw:numa_nodes and image property hw_numa_nodes`,
		`"r-0" wants CUSTOM_A:1, with T, without U`, "fault: No valid host", "asks (2 times)"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestExplanationOutput(t *testing.T) {
	var b strings.Builder
	g := Globals{Stdout: &b, Output: "table"}
	err := g.explain(placement.Explanation{Reason: "all are taken",
		Funnel: []placement.ExplainFunnelRow{{Clause: "has A", Left: 3}}, Minimal: []string{"A:2"},
		Nearest: []placement.ExplainNearestMiss{{Host: "h", Deficits: []placement.ExplainDeficit{{Class: "A",
			Cause: "held", Asks: 2, Free: 1, Of: 4,
			Text: "A: asks 2, 1 of 4 free", HeldBy: []placement.ExplainHolder{{Name: "h_0000:3b:00.0",
				Consumers: []resource.ConsumerID{"c1", "c2"}}}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	want := "all are taken\nhosts left after each clause:\n       3  has A\nthese cannot hold together:\n  A:2\nnearest " +
		"misses:\n  h: A: asks 2, 1 of 4 free\n    h_0000:3b:00.0 is held by c1, c2\n"
	if b.String() != want {
		t.Errorf("got\n%s", b.String())
	}
}

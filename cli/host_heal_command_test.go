package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/api/host"
)

// The rows show names; with long they begin with the consumer's id.
func TestHealRows(t *testing.T) {
	found := host.Allocations{
		Missing: []host.Missing{{Consumer: "c1", Name: "web", Lacks: map[string]map[string]int{"p1": {"VCPU": 1}}},
			{Consumer: "c2", Name: "db", Outcome: "written", Healed: true}},
		Foreign: []host.Foreign{{Consumer: "c3", Holds: map[string]map[string]int{"p2": {"VCPU": 2}}, Why: "unknown"}}}
	rows, left := healRows(found, names{"p1": "cmp1", "c3": "resize of old"}, false)
	var got []string
	for _, row := range rows {
		got = append(got, strings.Join(row, "|"))
	}
	want := []string{"web|lacks VCPU:1 of provider cmp1|would be written", "db|lacks |written",
		"resize of old|has VCPU:2 of provider p2|nothing: unknown"}
	if !slices.Equal(got, want) || left != 1 {
		t.Errorf("%d left: %q", left, got)
	}
	if rows, _ := healRows(found, nil, true); rows[0][0] != "c1" || rows[2][0] != "c3" {
		t.Errorf("%q", rows)
	}
}

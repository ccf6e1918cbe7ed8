package schedule_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/compute/schedule"
)

func TestSummariseIsBounded(t *testing.T) {
	var list []schedule.Refusal
	for i := range 30 {
		list = append(list, schedule.Refusal{Host: "h", Reason: fmt.Sprintf("reason %02d", i)})
	}
	if got := schedule.Summarise(list); !strings.HasSuffix(got, "1 host: reason 07; and 22 more reasons") {
		t.Errorf("got %s", got)
	}
	if got := schedule.Summarise(nil); got != "" {
		t.Errorf("without refusals: %q", got)
	}
}

// TestRefusalsNameHostsAndNearestMiss checks the refusals of excluded hosts and of hosts other than the requested one,
// and the nearest miss of several hosts.
func TestRefusalsNameHostsAndNearestMiss(t *testing.T) {
	one, two := withCells(host("one"), node(0, 0, 0), node(1, 0, 1)), withCells(host("two"), node(0, 0, 0))
	p := schedule.Input{Hosts: hosts(one, two, host("three")), Cells: guest(1), Now: noon, Silence: schedule.Silence,
		ExcludedHosts: map[string]string{"three": "it is the host that the server leaves"},
		Candidates:    []schedule.Candidate{candidate("two"), candidate("one"), candidate("three")}}
	choices, refusals := schedule.Choose(p, nil, 1)
	want := "2 hosts: no NUMA node has 2 threads for dedicated CPUs left (nearest: node 1 has 1); 1 host: it is the " +
		"host that the server leaves"
	if got := schedule.Summarise(refusals); got != want || len(choices) != 0 {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	failures := schedule.FilterFailures(refusals)
	if len(failures) != 2 || failures[0].Filter != schedule.FilterNUMA || failures[0].Count != 2 ||
		!slices.Equal(failures[0].Hosts,
			[]string{"one", "two"}) || failures[0].Nearest != "one: node 1 has 1" || failures[1].Filter != schedule.FilterHost {
		t.Errorf("%+v", failures)
	}
	search := p.SearchOf(refusals)
	if got := fmt.Sprint(search.Funnel); got != "[{hosts of the candidates 3 []} {are in service and permitted 2 "+
		"[three]} {have NUMA nodes with room 0 [one two]}]" {
		t.Error(got)
	}
	if len(search.Nearest) != 3 || search.Nearest[0].Host != "one" || search.Nearest[0].Deficits[0].Text !=
		"no NUMA node has 2 threads for dedicated CPUs left (node 1 has 1)" || search.Nearest[2].Host != "three" {
		t.Errorf("%+v", search.Nearest)
	}
	p.Cells, p.Only = nil, "two"
	choices, refusals = schedule.Choose(p, nil, 1)
	if len(choices) != 1 || choices[0].Host != "two" || schedule.Summarise(refusals) != "2 hosts: host two was requested" {
		t.Errorf("%v %s", choices, schedule.Summarise(refusals))
	}
}

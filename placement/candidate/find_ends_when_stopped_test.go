package candidate_test

import (
	"fmt"
	"testing"

	"github.com/openberth/berth/placement/candidate"
	ct "github.com/openberth/berth/placement/candidate/candidatetest"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// orders contains the two orders of Find: the value is BreadthFirst.
var orders = map[string]bool{"tree by tree": false, "breadth first": true}

// count returns the number of candidates of a search in one order.
func count(s *index.Snapshot, ask resource.Ask, breadthFirst bool, stop func() bool) int {
	n := 0
	for range candidate.Find(s, ask, candidate.Options{Stop: stop, BreadthFirst: breadthFirst}) {
		n++
	}
	return n
}

// hosts returns providers without children, each with vcpu units of VCPU.
func hosts(n, vcpu int) []index.Row {
	var rows []index.Row
	for i := range n {
		id := provider.ID(fmt.Sprintf("host%05d", i))
		rows = append(rows, index.Row{Provider: provider.Provider{ID: id, Root: id,
			Inventories: map[resource.Class]resource.Inventory{"VCPU": resource.Whole(vcpu)}}})
	}
	return rows
}

func vcpu(n int) resource.Ask {
	return resource.Ask{Groups: []resource.Group{{Resources: resource.Amounts{"VCPU": n}}}}
}

// TestStopBetweenTrees checks that a search of many trees ends when stop returns true, with and without candidates, and
// yields the candidates found before that.
func TestStopBetweenTrees(t *testing.T) {
	s := index.Build(hosts(10_000, 4))
	for n, most := range map[int]int{1: 0, 2: 64, 5: 4 * 64} {
		for name, breadthFirst := range orders {
			calls := 0
			if got := count(s, vcpu(5), breadthFirst, ct.StopAfter(n, &calls)); got != 0 || calls > n {
				t.Errorf("%s, without candidates: %d candidates, %d calls of stop, true at %d", name, got, calls, n)
			}
			calls = 0
			if got := count(s, vcpu(4), breadthFirst, ct.StopAfter(n, &calls)); got > most || calls != n {
				t.Errorf("%s: %d candidates, %d calls of stop, true at %d", name, got, calls, n)
			}
		}
	}
	for name, breadthFirst := range orders {
		calls := 0
		if got := count(s, vcpu(4), breadthFirst, ct.StopAfter(1<<30, &calls)); got != 10_000 {
			t.Errorf("%s, never stopped: %d candidates", name, got)
		}
	}
}

// TestStopWithinATree checks that a long search of one tree ends when stop returns true.
func TestStopWithinATree(t *testing.T) {
	s, ask := ct.Stuck()
	for _, n := range []int{1, 2, 10} {
		for name, breadthFirst := range orders {
			calls := 0
			if got := count(s, ask, breadthFirst, ct.StopAfter(n, &calls)); got != 0 || calls != n {
				t.Errorf("%s: %d candidates, %d calls of stop, true at %d", name, got, calls, n)
			}
		}
	}
}

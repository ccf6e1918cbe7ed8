package candidate_test

import (
	"fmt"
	"iter"
	"slices"
	"testing"

	"github.com/openberth/berth/placement/candidate"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// after says true at its nth call, and from then on; it counts the calls.
func after(n int, calls *int) candidate.Until {
	return func() bool { *calls++; return *calls >= n }
}

// searches are the two orders, each given up by until.
func searches(until candidate.Until) map[string]func(*index.Snapshot, resource.Ask) iter.Seq[candidate.Candidate] {
	return map[string]func(*index.Snapshot, resource.Ask) iter.Seq[candidate.Candidate]{"All": until.All, "Spread": until.Spread}
}

// hosts are providers without children, each with so many VCPU.
func hosts(n, vcpu int) []index.Row {
	var rows []index.Row
	for i := range n {
		id := provider.ID(fmt.Sprintf("host%05d", i))
		rows = append(rows, index.Row{Provider: provider.Provider{ID: id, Root: id, Inventories: map[resource.Class]resource.Inventory{"VCPU": resource.Whole(vcpu)}}})
	}
	return rows
}

func vcpu(n int) resource.Ask {
	return resource.Ask{Groups: []resource.Group{{Resources: resource.Amounts{"VCPU": n}}}}
}

// A search that goes from host to host and finds nothing is given up when it is told, and one that finds keeps what it gave.
func TestUntil(t *testing.T) {
	s := index.Build(hosts(10_000, 4))
	for n, most := range map[int]int{1: 0, 2: 64, 5: 4 * 64} {
		calls := 0
		for name, search := range searches(after(n, &calls)) {
			calls = 0
			if got := len(slices.Collect(search(s, vcpu(5)))); got != 0 || calls > n {
				t.Errorf("%s, nothing to find: %d candidates, asked %d times, stopped at %d", name, got, calls, n)
			}
			calls = 0
			if got := len(slices.Collect(search(s, vcpu(4)))); got > most || calls != n {
				t.Errorf("%s: %d candidates, asked %d times, stopped at %d", name, got, calls, n)
			}
		}
	}
	calls := 0
	for name, search := range searches(after(1<<30, &calls)) {
		if got := len(slices.Collect(search(s, vcpu(4)))); got != 10_000 {
			t.Errorf("%s, never stopped: %d candidates", name, got)
		}
	}
}

// stuck is a host of devices of odd sizes, and groups of even amounts which they would hold if halves were allowed. That they do not
// fit takes long to find out.
func stuck() (*index.Snapshot, resource.Ask) {
	rows := []index.Row{{Provider: provider.Provider{ID: "host", Root: "host", Inventories: map[resource.Class]resource.Inventory{"VCPU": resource.Whole(1)}}}}
	for i := range 8 {
		rows = append(rows, index.Row{Provider: provider.Provider{ID: provider.ID(fmt.Sprint("dev", i)), Parent: "host", Root: "host",
			Inventories: map[resource.Class]resource.Inventory{"CUSTOM_GPU": resource.Whole(101)}}})
	}
	ask := resource.Ask{GroupPolicy: resource.PolicyNone}
	for i := range 26 {
		amount := 20 + 2*(i*7%11) // 780 together
		if i < 12 {
			amount += 2 // 804: the devices have 808, of which 800 are even
		}
		ask.Groups = append(ask.Groups, resource.Group{Suffix: fmt.Sprint("_", i), Resources: resource.Amounts{"CUSTOM_GPU": amount}})
	}
	return index.Build(rows), ask
}

// A search that is stuck within one host is given up, too.
func TestUntilWithinAHost(t *testing.T) {
	s, ask := stuck()
	for _, n := range []int{1, 2, 10} {
		calls := 0
		for name, search := range searches(after(n, &calls)) {
			calls = 0
			if got := len(slices.Collect(search(s, ask))); got != 0 || calls != n {
				t.Errorf("%s: %d candidates, asked %d times, stopped at %d", name, got, calls, n)
			}
		}
	}
}

// An explanation that nobody waits for ends soon; one that is waited for says what it always says.
func TestExplainUntil(t *testing.T) {
	s, ask := stuck()
	soon, late := 0, 0
	after(1, &soon).Explain(s, ask)
	why := after(1<<30, &late).Explain(s, ask)
	if soon > late/4 {
		t.Errorf("asked %d times after it was told to stop, %d times when it was not", soon, late)
	}
	if always := candidate.Explain(s, ask); why.Reason == "" || why.String() != always.String() {
		t.Errorf("%s\nwant %s", why, always)
	}
}

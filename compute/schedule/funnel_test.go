package schedule_test

import (
	"fmt"
	"testing"

	"github.com/openberth/berth/compute/schedule"
)

// A host is removed by the filter that its furthest candidate reached, and not at all if a candidate is accepted.
func TestFunnelCountsHostsOnce(t *testing.T) {
	refuse := func(host string, filter schedule.Filter) schedule.Refusal {
		return schedule.Refusal{Host: host, Filter: filter, Reason: "it is refused"}
	}
	var list []schedule.Refusal
	for i := range 30 {
		list = append(list, refuse(fmt.Sprintf("host%02d", i), schedule.FilterDevices))
	}
	list = append(list, refuse("host00", schedule.FilterNUMA), refuse("good", schedule.FilterNUMA))
	list[1].Shortfall, list[1].Shortage = -1, schedule.Shortage{Asks: 3, Free: 1, Of: 4}
	search := schedule.SearchOf("hosts", 31, map[string]bool{"good": true}, list)
	if len(search.Funnel) != 3 || search.Funnel[1].Left != 2 || len(search.Funnel[1].Removed) != 20 ||
		search.Funnel[1].Removed[0] != "host01" || fmt.Sprint(search.Funnel[2]) != "{have NUMA nodes with room 1 [host00]}" {
		t.Errorf("%+v", search.Funnel)
	}
	if len(search.Nearest) != 3 || search.Nearest[0].Host != "host00" ||
		fmt.Sprint(search.Nearest[1]) != "{host01 [{ PciPassthroughFilter 3 1 4 it is refused}]}" {
		t.Errorf("%+v", search.Nearest)
	}
	if one := schedule.SearchOf("hosts", 7, nil, nil); fmt.Sprint(one) != "{[{hosts 7 []}] []}" {
		t.Errorf("%+v", one)
	}
}

package audit

import (
	"testing"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/resource"
)

// Nothing lacks while the CPUs of a guest are on the other form of its host, also if a migration holds them meanwhile.
func TestLackingInEitherForm(t *testing.T) {
	h := schedule.Host{Name: "h", Provider: "root", NUMA: schedule.NUMA{Cells: []numa.Cell{{ID: 0}}}}
	node := h.NodeProvider(0)
	e := lifecycle.Expectation{Consumer: "s", Also: []string{"m"}, Root: "root",
		Allocation: resource.Allocation{"root": {"PCPU": 2}}, Cells: []numa.GuestCell{{Dedicated: []int{0, 1}, MemoryMB: 64}}}
	for _, holder := range []resource.ConsumerID{"s", "m"} {
		held := holdings{"root": {}, node: {holder: {"PCPU": 2}}}
		if lacks := lacking(e, h, "root", held); len(lacks) > 0 {
			t.Errorf("%s holds the CPUs of the node, and %v lack", holder, lacks)
		}
		held[node][holder] = resource.Amounts{"PCPU": 1}
		if lacks := lacking(e, h, "root", held); lacks["root"]["PCPU"] != 2 {
			t.Errorf("%s holds one of two CPUs, and %v lack", holder, lacks)
		}
	}
}

package numa_test

import (
	"fmt"
	"testing"

	"github.com/openberth/berth/numa"
)

func TestUse(t *testing.T) {
	host := []numa.Cell{smt(cell(0, 4)), cell(1, 2)}
	host[0].Pages = []numa.Pages{{SizeKB: 2048, Total: 1024, Used: 1}}
	isolated := numa.GuestCell{VCPUs: []int{0, 1}, Dedicated: []int{0}, Threads: numa.Isolate, MemoryMB: 1025}
	guest := []numa.GuestCell{isolated, guestCell(2, false)}
	got := numa.Use(host, guest, []numa.Placed{{Node: 0, CPUs: map[int]int{0: 2}, PageKB: 2048}, {Node: 1}, {Node: 7}})
	if fmt.Sprint(got[0].Pinned, got[0].Floating, got[0].Pages[0].Used, got[0].UsedMemory) != "[2 3] 1 514 0" {
		t.Errorf("want an isolated core, a shared CPU and 513 pages: %+v", got[0])
	}
	if got[1].Floating != 2 || got[1].UsedMemory != 1024 || got[1].Pinned != nil {
		t.Errorf("%+v", got[1])
	}
	if host[0].Floating != 0 || host[0].Pages[0].Used != 1 || host[0].Pinned != nil {
		t.Errorf("Use changed its argument: %+v", host[0])
	}
}

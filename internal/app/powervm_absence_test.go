package app

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/internal/novalink"
	"github.com/openberth/berth/internal/testenv"
)

// Answers that lack partitions, for several cycles, cost no server anything. A partition that another client has
// deleted is created again, and if its slot has another owner then, the server is stopped and keeps its allocation.
func TestMissingPartitionsCostNoServer(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	p := newPowerVM(t)
	p.up(p.conf)
	defer p.down()
	a := p.boot("a", "ACTIVE", gpuSpecs(1))
	p.quiet()
	allocation, owners := p.allocation(a.ID), p.owners()
	for _, status := range []int{204, 200} {
		p.novalink.Inject(novalink.Fault{Method: "GET", Path: "/LogicalPartition", Status: status, NoBody: true, Times: 1000})
		p.until("the condition", func() bool { return strings.Contains(p.conditions(), "is not complete") })
		time.Sleep(3 * time.Second)
		p.novalink.EndFaults()
		p.unchanged(a.ID, "ACTIVE")
		p.until("the end of the condition", func() bool { return !strings.Contains(p.conditions(), "is not complete") })
	}
	if now := p.owners(); !reflect.DeepEqual(now, owners) || !reflect.DeepEqual(p.allocation(a.ID), allocation) {
		t.Errorf("owners %v, were %v", now, owners)
	}
	p.change(func(s *novalink.System) {
		s.DeletePartitions()
		for _, slot := range s.Slots {
			slot.ForeignID, slot.ForeignName = "9", "vios1"
		}
	})
	p.until("the server is stopped", func() bool { _, status := p.serverOn(a.ID); return status == "SHUTOFF" })
	if now := p.allocation(a.ID); !reflect.DeepEqual(now, allocation) {
		t.Errorf("the allocation is %v, was %v", now, allocation)
	}
	p.change(func(s *novalink.System) {
		for _, slot := range s.Slots {
			slot.ForeignID, slot.ForeignName = "", ""
		}
	})
	if err := p.compute().Act(t.Context(), a.ID, "os-start", nil); err != nil {
		t.Fatal(err)
	}
	p.until("the server runs again", func() bool { _, status := p.serverOn(a.ID); return status == "ACTIVE" })
	p.until("the partition exists", func() bool { return len(p.owners()) == 1 })
	p.delete(a.ID)
	p.until("the slot is free", func() bool { return len(p.owners()) == 0 })
}

// unchanged checks the status of a server.
func (p *powerVM) unchanged(id, want string) {
	p.t.Helper()
	if _, status := p.serverOn(id); status != want {
		p.t.Errorf("the server is %s", status)
	}
}

package powervm_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/hypervisortest"
	"github.com/openberth/berth/agent/hypervisor/powervm"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/novalink"
	"github.com/openberth/berth/internal/testenv"
)

// incompleteAnswers are answers about partitions that are empty, partial or of another system, each with what ends it.
var incompleteAnswers = map[string]struct{ begin, end func(n *testSystem) }{
	"204 without body": {begin: func(n *testSystem) {
		n.Inject(novalink.Fault{Method: "GET", Path: "/LogicalPartition", Status: 204, NoBody: true, Times: 99})
	}},
	"200 without body": {begin: func(n *testSystem) {
		n.Inject(novalink.Fault{Method: "GET", Path: "/LogicalPartition", Status: 200, NoBody: true, Times: 99})
	}},
	"a partition is missing": {
		begin: func(n *testSystem) { n.system.Hidden = []string{"guest_a-AAAAAAAAAAAA"} },
		end:   func(n *testSystem) { n.system.Hidden = nil },
	},
	"another system": {
		begin: func(n *testSystem) { rename(n, "99999999-2222-3333-4444-555555555555") },
		end:   func(n *testSystem) { rename(n, "11111111-2222-3333-4444-555555555555") },
	},
	"a service that starts": {
		begin: func(n *testSystem) { n.Change(func(o *novalink.Options, _ []*novalink.System) { o.Starting = true }) },
		end:   func(n *testSystem) { n.Change(func(o *novalink.Options, _ []*novalink.System) { o.Starting = false }) },
	},
	"no connection": {begin: func(n *testSystem) { n.Inject(novalink.Fault{Times: 99}) }},
}

// rename gives the system another UUID.
func rename(n *testSystem, uuid string) {
	n.Change(func(_ *novalink.Options, systems []*novalink.System) {
		systems[0].UUID = uuid
		systems[0].Touch()
	})
}

// An empty, partial or foreign answer about the partitions is a fault of every operation. Nothing is changed, and the
// guests are as before when the server answers again.
func TestIncompleteAnswerChangesNothing(t *testing.T) {
	for name, answer := range incompleteAnswers {
		t.Run(name, func(t *testing.T) {
			n, dir := startNovaLink(t), t.TempDir()
			h := n.driver(t, dir)
			a := guest("a", firstSlot+1)
			if err := h.Build(t.Context(), a); err != nil {
				t.Fatal(err)
			}
			before, files := owners(n), records(dir)
			n.Requests()
			answer.begin(n)
			_, err := h.Guests(t.Context())
			_, capacity := h.Capacity(t.Context())
			for what, err := range map[string]error{"guests": err, "capacity": capacity,
				"build": h.Build(t.Context(), a), "destroy": h.Destroy(t.Context(), a.ID)} {
				if !fault.Is(err, fault.Unavailable) {
					t.Errorf("%s: %v", what, err)
				}
			}
			for _, r := range n.Requests() {
				if !strings.HasPrefix(r, "GET ") && !strings.Contains(r, "Logon") {
					t.Errorf("sent %s", r)
				}
			}
			n.EndFaults()
			if answer.end != nil {
				answer.end(n)
			}
			list, err := h.Guests(t.Context())
			if err != nil || len(list) != 1 || list[0].Stopped || list[0].Remark != "" {
				t.Errorf("afterwards: %+v %v", list, err)
			}
			if len(owners(n)) != len(before) || !slices.Equal(records(dir), files) {
				t.Errorf("owners %v, files %v", owners(n), records(dir))
			}
		})
	}
}

// A partition that the server does not find is no longer looked at as existing only after Recheck.
func TestMissingPartitionIsReadAgainLater(t *testing.T) {
	n, dir := startNovaLink(t), t.TempDir()
	h := powervm.New(n.client(t), powervm.Options{Dir: dir, Recheck: time.Hour})
	if err := h.Build(t.Context(), guest("a", firstSlot+1)); err != nil {
		t.Fatal(err)
	}
	n.Change(func(_ *novalink.Options, systems []*novalink.System) { systems[0].DeletePartitions() })
	for range 3 {
		if list, err := h.Guests(t.Context()); !fault.Is(err, fault.Unavailable) {
			t.Errorf("%v %v", list, err)
		}
		if err := h.Destroy(t.Context(), hypervisortest.ID("a")); !fault.Is(err, fault.Unavailable) {
			t.Errorf("destroyed: %v", err)
		}
	}
	if len(records(dir)) != 1 {
		t.Error("the record is gone")
	}
}

// The driver passes the tests of all drivers with a server that chooses the UUIDs of partitions.
func TestDriverPassesTheSuiteWithUUIDsOfTheServer(t *testing.T) {
	fakes, dirs := map[*testing.T]*testSystem{}, map[*testing.T]string{}
	hypervisortest.RunWithoutMigration(t, func(t *testing.T) hypervisor.Hypervisor {
		if fakes[t] == nil {
			fakes[t], dirs[t] = startNovaLink(t), t.TempDir()
			fakes[t].system.ChoosesUUIDs = true
		}
		return slotNames{fakes[t].driver(t, dirs[t])}
	})
}

// partitionCount returns the number of partitions, without NovaLink's own.
func partitionCount(n *testSystem) (count int) {
	n.Change(func(_ *novalink.Options, systems []*novalink.System) { count = len(systems[0].PartitionSlots()) })
	return count
}

// The request to create a partition is not answered and executed later. The next attempt finds the partition by its
// name, also if the server has chosen its UUID.
func TestLateCreationIsAdopted(t *testing.T) {
	for _, chooses := range []bool{false, true} {
		n := startNovaLink(t)
		n.system.ChoosesUUIDs = chooses
		h := n.driver(t, t.TempDir())
		g := guest("a", firstSlot+1)
		n.Inject(novalink.Fault{Method: "PUT", Path: "/LogicalPartition", Late: true})
		if err := h.Build(t.Context(), g); !fault.Is(err, fault.Unavailable) {
			t.Fatal(err)
		}
		n.PerformLate()
		if err := h.Build(t.Context(), g); err != nil {
			t.Fatal(err)
		}
		if partitionCount(n) != 1 || len(owners(n)) != 1 {
			t.Errorf("owners %v", owners(n))
		}
		if err := h.Destroy(t.Context(), g.ID); err != nil || partitionCount(n) != 0 {
			t.Errorf("%d partitions are left: %v", partitionCount(n), err)
		}
	}
}

// The request to create a partition is executed after its guest was removed: the partition is removed when it appears,
// also after a restart of the driver.
func TestCreationAfterTheRemovalIsUndone(t *testing.T) {
	for _, chooses := range []bool{false, true} {
		n, dir := startNovaLink(t), t.TempDir()
		n.system.ChoosesUUIDs = chooses
		h := n.driver(t, dir)
		g := guest("a", firstSlot+1)
		n.Inject(novalink.Fault{Method: "PUT", Path: "/LogicalPartition", Late: true})
		if err := h.Build(t.Context(), g); !fault.Is(err, fault.Unavailable) {
			t.Fatal(err)
		}
		if err := h.Destroy(t.Context(), g.ID); err != nil || len(records(dir)) != 0 {
			t.Fatal(err)
		}
		n.PerformLate()
		if partitionCount(n) != 1 {
			t.Fatal("the request was not executed")
		}
		h = powervm.New(n.client(t), powervm.Options{Dir: dir, Sweep: time.Millisecond})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			h.Maintain(ctx)
		}()
		testenv.Until(t, "the partition is removed", func() bool { return partitionCount(n) == 0 })
		cancel()
		<-ended
	}
}

// A server returned to the host before its abandoned partition appeared: the partition is the new guest's.
func TestAbandonedPartitionOfAPresentGuestStays(t *testing.T) {
	n, dir := startNovaLink(t), t.TempDir()
	h := powervm.New(n.client(t), powervm.Options{Dir: dir, Sweep: time.Millisecond})
	g := guest("a", firstSlot+1)
	n.Inject(novalink.Fault{Method: "PUT", Path: "/LogicalPartition", Late: true})
	if err := h.Build(t.Context(), g); !fault.Is(err, fault.Unavailable) {
		t.Fatal(err)
	}
	if err := h.Destroy(t.Context(), g.ID); err != nil {
		t.Fatal(err)
	}
	if err := h.Build(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	n.PerformLate()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	h.Maintain(ctx)
	list, err := h.Guests(t.Context())
	if err != nil || len(list) != 1 || list[0].Stopped || partitionCount(n) != 1 {
		t.Errorf("%+v %v", list, err)
	}
}

// Two servers with the same name are resized on this host: their second partitions have different names.
func TestSecondGuestsOfServersWithOneName(t *testing.T) {
	n := startNovaLink(t)
	h := n.driver(t, t.TempDir())
	for i, digit := range []string{"a", "b"} {
		g := guest(digit, firstSlot+uint32(2*i)+1)
		g.Name = "web"
		if err := h.Build(t.Context(), g); err != nil {
			t.Fatal(err)
		}
		if err := h.Rename(t.Context(), g.ID, hypervisortest.ID([]string{"c", "d"}[i]), g.ID); err != nil {
			t.Fatal(err)
		}
		second := guest(digit, firstSlot+uint32(2*i)+2)
		second.Name = "web"
		if err := h.Build(t.Context(), second); err != nil {
			t.Fatal(err)
		}
	}
	if partitionCount(n) != 4 {
		t.Errorf("%d partitions", partitionCount(n))
	}
}

// A slot that another client took from a running partition is a remark about the guest, until it has it again.
func TestTakenSlotIsARemark(t *testing.T) {
	n := startNovaLink(t)
	h := n.driver(t, t.TempDir())
	g := guest("a", firstSlot+1, firstSlot+2)
	if err := h.Build(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	n.Change(func(_ *novalink.Options, systems []*novalink.System) { systems[0].DetachSlots() })
	list, err := h.Guests(t.Context())
	if err != nil || len(list) != 1 || !strings.Contains(list[0].Remark, "without the I/O slots 21010001, 21010002") {
		t.Fatalf("%+v %v", list, err)
	}
	for _, g.Stopped = range []bool{true, false} {
		if err := h.Build(t.Context(), g); err != nil {
			t.Fatal(err)
		}
	}
	if list, err = h.Guests(t.Context()); err != nil || list[0].Remark != "" {
		t.Errorf("%+v %v", list, err)
	}
}

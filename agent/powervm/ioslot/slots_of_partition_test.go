package ioslot

import (
	"strings"
	"testing"

	"github.com/openberth/berth/agent/powervm/uom"
	"github.com/openberth/berth/fault"
)

func TestPartitionUUIDHasNoHighestBit(t *testing.T) {
	for server, want := range map[string]string{
		"ffd4e5f6-0000-4000-8000-00000000000a": "7FD4E5F6-0000-4000-8000-00000000000A",
		"8a":                                   "0A", "7a": "7A", "0": "0", "": "", "x1": "X1",
	} {
		if got := PartitionUUID(server); got != want {
			t.Errorf("%s: %s", server, got)
		}
	}
}

// sample returns a system with a free slot 1, a slot 2 of the partition P, an empty slot 3 and a slot 4 without owner
// information.
func sample() System {
	return System{Reported: true, Slots: []Slot{{Index: 1, BusGrouping: true, Owner: Owner{Kind: Unowned}},
		{Index: 2, Owner: Owner{Kind: Owned, PartitionID: 7, Name: "p", UUID: "P"}},
		{Index: 3, Description: "Empty slot", Owner: Owner{Kind: Unowned}}, {Index: 4}}}
}

func TestSlotsForAPartition_R49(t *testing.T) {
	slots, err := sample().ForPartition("p", []Index{2, 1})
	if err != nil || len(slots) != 2 {
		t.Fatalf("%+v %v", slots, err)
	}
	for i, want := range []uom.IOSlot{{Index: "2", BusGrouping: "false"}, {Index: "1", BusGrouping: "true"}} {
		if got := Profile(slots)[i]; got.Index != want.Index || got.BusGrouping != want.BusGrouping {
			t.Errorf("%+v", got)
		}
	}
	if slots, err := (System{}).ForPartition("p", nil); err != nil || slots != nil {
		t.Errorf("a partition without slots: %v %v", slots, err)
	}
}

func TestSlotsThatAPartitionCannotHave_R49_C28(t *testing.T) {
	_, err := sample().ForPartition("Q", []Index{1, 2, 3, 9})
	if !fault.Is(err, fault.Conflict) {
		t.Fatal(err)
	}
	for _, part := range []string{"00000002 belongs to partition 7 (p)", "00000003 is empty", "no I/O slot 00000009"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v lacks %q", err, part)
		}
	}
	if strings.Contains(err.Error(), "00000001") {
		t.Error(err)
	}
	for kind, got := range map[fault.Kind]error{
		fault.Unavailable: second(System{}.ForPartition("p", []Index{1})),
		fault.Invalid:     second(sample().ForPartition("p", []Index{1, 1})),
		fault.Conflict:    second(sample().ForPartition("", []Index{2})),
	} {
		if !fault.Is(got, kind) {
			t.Errorf("%s: %v", kind, got)
		}
	}
	if _, err := sample().ForPartition("p", []Index{4}); !fault.Is(err, fault.Unavailable) {
		t.Error(err)
	}
}

func second(_ []Slot, err error) error { return err }

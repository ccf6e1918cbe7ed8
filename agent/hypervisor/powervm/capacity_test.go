package powervm_test

import (
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/novalink"
)

// The capacity is what no partition of others has. It stays the same while guests are built, stopped and removed.
func TestCapacityIsWhatOthersLeave(t *testing.T) {
	n := startNovaLink(t)
	n.system.OthersMemory, n.system.OthersUnits = novalink.Memory-10*novalink.Region-100, novalink.Units-8.5
	h := n.driver(t, t.TempDir())
	expect := func(when string, memory int) {
		t.Helper()
		c, err := h.Capacity(t.Context())
		if err != nil || c.MemoryMB != memory || c.VCPUs != 8 {
			t.Errorf("%s: %+v %v", when, c, err)
		}
	}
	expect("no guest", 10*novalink.Region)
	g := guest("a", firstSlot+1)
	g.VCPUs, g.MemoryMB = 4, 2*novalink.Region
	if err := h.Build(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	expect("one guest", 10*novalink.Region)
	g.Stopped = true
	if err := h.Build(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	expect("one stopped guest", 10*novalink.Region)
	if err := h.Destroy(t.Context(), g.ID); err != nil {
		t.Fatal(err)
	}
	expect("no guest again", 10*novalink.Region)
}

// The memory of a partition is a multiple of the size of a memory region; the fake refuses another one.
func TestMemoryIsRoundedToRegions(t *testing.T) {
	n := startNovaLink(t)
	h := n.driver(t, t.TempDir())
	g := guest("a", firstSlot+1)
	g.MemoryMB = 3*novalink.Region + 1
	if err := h.Build(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	if got := requestedText(n, "PartitionMemoryConfiguration", "DesiredMemory"); got != "1024" {
		t.Errorf("DesiredMemory is %s", got)
	}
	list, err := h.Guests(t.Context())
	if err != nil || len(list) != 1 || list[0].MemoryMB != g.MemoryMB {
		t.Errorf("%+v %v", list, err)
	}
}

// Partitions of others took memory or processor units since the host was reported: another host is needed, and nothing
// is created.
func TestNoRoomIsAConflict(t *testing.T) {
	for want, take := range map[string]func(s *novalink.System){
		"MiB of memory":   func(s *novalink.System) { s.OthersMemory = novalink.Memory - 1 },
		"processor units": func(s *novalink.System) { s.OthersUnits = novalink.Units - 0.05 },
	} {
		n := startNovaLink(t)
		dir := t.TempDir()
		h := n.driver(t, dir)
		take(n.system)
		err := h.Build(t.Context(), guest("a", firstSlot+1))
		if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v", err)
		}
		if len(records(dir)) != 0 || partitionCount(n) != 0 {
			t.Errorf("left %v", records(dir))
		}
	}
}

// A system that is not operating gets no partitions, and the driver reports it.
func TestSystemThatIsNotOperating(t *testing.T) {
	n := startNovaLink(t)
	h := n.driver(t, t.TempDir())
	if err := h.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.Change(func(_ *novalink.Options, systems []*novalink.System) {
		systems[0].State = "standby"
		systems[0].Touch()
	})
	for what, err := range map[string]error{"check": h.Check(t.Context()),
		"build": h.Build(t.Context(), guest("a", firstSlot+1))} {
		if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), `"standby"`) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if partitionCount(n) != 0 {
		t.Error("a partition was created")
	}
}

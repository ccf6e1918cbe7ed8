package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/pci"
)

// wishes stand until the agent has answered, and refusals until the device is clean or wanted again.
func wishes(t *testing.T, s *store.Store) {
	ctx := t.Context()
	gpu, disk := pci.Address{Bus: 2}, pci.Address{Bus: 1}
	first := noon.Add(time.Microsecond)
	changed, stop := s.Subscribe("h")
	defer stop()
	want := func(host string, at pci.Address, asked time.Time) {
		t.Helper()
		must(t, s.RequestClean(ctx, store.CleanRequest{Host: host, Address: at, Asked: asked}))
	}
	expect := func(what, inLines, all string) {
		t.Helper()
		a, err := s.Assignments(ctx, "h")
		must(t, err)
		list, err := s.CleanRequests(ctx)
		must(t, err)
		if got := words(a.CleanRequests); got != inLines {
			t.Errorf("%s: the agent of h hears %q, want %q", what, got, inLines)
		}
		if got := words(list); got != all {
			t.Errorf("%s: there are %q, want %q", what, got, all)
		}
	}
	used := func(pci.Address) bool { return true }

	want("h", gpu, first)
	want("h", disk, noon)
	want("other", gpu, noon)
	select {
	case <-changed:
	default:
		t.Error("who follows the host was not woken")
	}
	if a, err := s.Assignments(ctx, "h"); err != nil || a.Revision != 2 {
		t.Errorf("the line says nothing new: %d %v", a.Revision, err)
	}
	expect("asked", "h 0000:01:00.0 0, h 0000:02:00.0 1", "h 0000:01:00.0 0, h 0000:02:00.0 1, other 0000:02:00.0 0")

	must(t, s.ResolveClean(ctx, "h", used, nil))
	must(t, s.ResolveClean(ctx, "h", used, []store.CleanRequest{{Address: gpu, Asked: noon, Refused: "of another wish"}}))
	expect("unanswered", "h 0000:01:00.0 0, h 0000:02:00.0 1", "h 0000:01:00.0 0, h 0000:02:00.0 1, other 0000:02:00.0 0")

	must(t, s.ResolveClean(ctx, "h", used, []store.CleanRequest{{Address: gpu, Asked: first, Refused: "no wiper"},
		{Address: disk, Asked: noon}}))
	expect("one is refused, one done", "", "h 0000:02:00.0 1: no wiper, other 0000:02:00.0 0")
	must(t, s.ResolveClean(ctx, "h", used, nil))
	expect("a refusal stays", "", "h 0000:02:00.0 1: no wiper, other 0000:02:00.0 0")

	want("h", gpu, noon.Add(2*time.Microsecond))
	expect("wanted again", "h 0000:02:00.0 2", "h 0000:02:00.0 2, other 0000:02:00.0 0")
	must(t, s.ResolveClean(ctx, "h", func(at pci.Address) bool { return at != gpu }, nil))
	expect("seen to be clean", "", "other 0000:02:00.0 0")
}

func words(list []store.CleanRequest) (out string) {
	for i, w := range list {
		if i > 0 {
			out += ", "
		}
		out += fmt.Sprintf("%s %s %d", w.Host, w.Address, w.Asked.Sub(noon).Microseconds())
		if w.Refused != "" {
			out += ": " + w.Refused
		}
	}
	return out
}

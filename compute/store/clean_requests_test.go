package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/pci"
)

// cleanRequests checks that a request is kept until the agent has answered, and a refusal until the device is clean or
// a new request is stored.
func cleanRequests(t *testing.T, s *store.Store) {
	ctx := t.Context()
	gpu, disk := pci.Address{Bus: 2}, pci.Address{Bus: 1}
	first := noon.Add(time.Microsecond)
	changed, stop := s.Subscribe("h")
	defer stop()
	request := func(host string, at pci.Address, asked time.Time) {
		t.Helper()
		must(t, s.RequestClean(ctx, store.CleanRequest{Host: host, Address: at, Asked: asked}))
	}
	expect := func(what, assigned, all string) {
		t.Helper()
		a, err := s.Assignments(ctx, "h")
		must(t, err)
		list, err := s.CleanRequests(ctx)
		must(t, err)
		if got := describe(a.CleanRequests); got != assigned {
			t.Errorf("%s: the assignments of h have %q, want %q", what, got, assigned)
		}
		if got := describe(list); got != all {
			t.Errorf("%s: stored are %q, want %q", what, got, all)
		}
	}
	used := func(pci.Address) bool { return true }

	request("h", gpu, first)
	request("h", disk, noon)
	request("other", gpu, noon)
	select {
	case <-changed:
	default:
		t.Error("the subscriber of the host was not notified")
	}
	if a, err := s.Assignments(ctx, "h"); err != nil || a.Revision != 2 {
		t.Errorf("the revision is %d, want 2 (%v)", a.Revision, err)
	}
	expect("requested", "h 0000:01:00.0 0, h 0000:02:00.0 1", "h 0000:01:00.0 0, h 0000:02:00.0 1, other 0000:02:00.0 0")

	must(t, s.ResolveClean(ctx, "h", used, nil))
	must(t, s.ResolveClean(ctx, "h", used,
		[]store.CleanRequest{{Address: gpu, Asked: noon, Refused: "of another request"}}))
	expect("unanswered", "h 0000:01:00.0 0, h 0000:02:00.0 1", "h 0000:01:00.0 0, h 0000:02:00.0 1, other 0000:02:00.0 0")

	must(t, s.ResolveClean(ctx, "h", used, []store.CleanRequest{{Address: gpu, Asked: first, Refused: "no wiper"},
		{Address: disk, Asked: noon}}))
	expect("one refused, one done", "", "h 0000:02:00.0 1: no wiper, other 0000:02:00.0 0")
	must(t, s.ResolveClean(ctx, "h", used, nil))
	expect("a refusal stays", "", "h 0000:02:00.0 1: no wiper, other 0000:02:00.0 0")

	request("h", gpu, noon.Add(2*time.Microsecond))
	expect("requested again", "h 0000:02:00.0 2", "h 0000:02:00.0 2, other 0000:02:00.0 0")
	must(t, s.ResolveClean(ctx, "h", func(at pci.Address) bool { return at != gpu }, nil))
	expect("clean in a report", "", "other 0000:02:00.0 0")
}

// describe returns clean requests as text: host, device, microseconds after noon, refusal.
func describe(list []store.CleanRequest) (out string) {
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

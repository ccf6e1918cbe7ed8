package store

import (
	"testing"
	"time"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/provider"
)

// TestAddAfterOtherChange adds a guest to a host that has changed since the claim began, and to one that was read
// before the claim was committed: the guest may be gone again, and the host without the guest must not be kept.
func TestAddAfterOtherChange(t *testing.T) {
	c, roots := newHostCache(), []provider.ID{"root"}
	old := map[provider.ID]schedule.Host{"root": {Name: "a", Provider: "root"}}
	guest := func(h schedule.Host) (schedule.Host, bool) {
		return h.WithGuests([]schedule.Guest{{ID: "new"}}), true
	}
	guests := func() int {
		found, missing, _ := c.get(roots)
		if len(missing) > 0 {
			return -1
		}
		return len(found["root"].Guests)
	}
	keep := func() {
		_, _, began := c.get(roots)
		c.put(roots, old, began)
	}

	keep()
	c.add("a", c.version("a"), guest)
	if n := guests(); n != 1 {
		t.Errorf("a claim: %d guests, want 1", n)
	}

	keep()
	began := c.version("a")
	c.drop("", "a") // the server has left the host
	keep()
	c.add("a", began, guest)
	if n := guests(); n != -1 {
		t.Errorf("a claim after which the server has left: %d guests, want a host that is read again", n)
	}

	keep()
	began = c.version("a")
	c.add("a", began, func(h schedule.Host) (schedule.Host, bool) {
		c.drop("", "a") // while the host is made
		keep()
		return guest(h)
	})
	if n := guests(); n != -1 {
		t.Errorf("a claim during which the server has left: %d guests, want a host that is read again", n)
	}

	_, _, reading := c.get(roots)
	c.add("a", c.version("a"), guest)
	c.put(roots, old, reading)
	if n := guests(); n != -1 {
		t.Errorf("a claim while the host was read: %d guests, want a host that is read again", n)
	}
}

// A host that was read while the end of a write was not known may be older than that write: it is read again, at each
// time until that is over and once afterwards.
func TestHostsInDoubtAreReadAgain(t *testing.T) {
	c, roots := newHostCache(), []provider.ID{"root"}
	host := map[provider.ID]schedule.Host{"root": {Name: "a", Provider: "root"}}
	first, second := time.Now(), time.Now()
	for i, step := range []struct {
		alone bool
		doubt *time.Time
		kept  bool
	}{
		{true, nil, true}, {false, nil, true},
		{false, &first, false}, {false, &first, false}, {true, &first, false}, {true, &first, true}, {false, &first, false},
		{true, &first, true}, {true, &second, false}, {true, &second, true},
	} {
		_, _, began := c.get(roots)
		c.put(roots, host, began)
		c.trust(step.alone, step.doubt)
		if _, missing, _ := c.get(roots); len(missing) == 0 != step.kept {
			t.Errorf("step %d: kept %t, want %t", i, !step.kept, step.kept)
		}
	}
}

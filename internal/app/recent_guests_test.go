package app

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openberth/berth/agent/hypervisor"
)

// countedLists is a hypervisor that counts its lists of guests.
type countedLists struct {
	hypervisor.Hypervisor
	lists atomic.Int32
}

func (c *countedLists) Guests(ctx context.Context) ([]hypervisor.Guest, error) {
	c.lists.Add(1)
	return []hypervisor.Guest{{ID: "g1"}}, ctx.Err()
}

// TestRecentGuests lists the guests once for many requests, also if the first request was given up.
func TestRecentGuests(t *testing.T) {
	from := &countedLists{}
	r := &recentGuests{from: from}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if all, err := r.list(gone); err != nil || len(all) != 1 {
				t.Errorf("%v %v", all, err)
			}
		})
	}
	wg.Wait()
	if n := from.lists.Load(); n != 1 {
		t.Errorf("%d lists, want 1", n)
	}
	r.read = time.Now().Add(-guestsAge)
	if _, err := r.list(t.Context()); err != nil || from.lists.Load() != 2 {
		t.Errorf("an old list: %d lists, want 2; %v", from.lists.Load(), err)
	}
}

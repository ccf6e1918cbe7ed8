package app

import (
	"context"
	"sync"
	"time"

	"github.com/openberth/berth/agent/hypervisor"
)

// The limits of lists of guests for the metadata service.
const (
	guestsAge  = 2 * time.Second
	guestsTime = 10 * time.Second // of one list
)

// recentGuests lists the guests of a hypervisor at most once in guestsAge, however many requests there are. An error is
// kept as long, because a hypervisor that does not answer must not be asked by each request.
type recentGuests struct {
	from hypervisor.Hypervisor

	mu   sync.Mutex
	read time.Time
	all  []hypervisor.Guest
	err  error
}

// list returns the guests, at most guestsAge old. Concurrent callers wait for one list, which does not end with the
// request of one of them.
func (r *recentGuests) list(ctx context.Context) ([]hypervisor.Guest, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.read.IsZero() || time.Since(r.read) >= guestsAge {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), guestsTime)
		defer cancel()
		r.all, r.err = r.from.Guests(ctx)
		r.read = time.Now()
	}
	return r.all, r.err
}

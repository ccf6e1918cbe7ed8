package server

import (
	"context"
	"runtime"

	"github.com/openberth/berth/fault"
)

// These constants bound the memory that requests use at one time: the number of running searches, the number of answers
// that are sent in chunks, and the bytes of large bodies that are read and validated. A request beyond a bound waits
// until there is room or its client disconnects.
const (
	searchesPerCore = 4  // a search that waits for its client releases its slot
	maxStreams      = 64 // answers that are sent in chunks
	maxLargeBodies  = 4  // bodies of the maximum size that are read and validated at one time
)

// limiter bounds how many slots are held at one time. A nil limiter has no bound.
type limiter chan struct{}

func newSearchLimiter() limiter { return make(limiter, searchesPerCore*runtime.GOMAXPROCS(0)) }

// acquire waits for a slot. It returns fault.Unavailable if ctx ends before.
func (t limiter) acquire(ctx context.Context) error {
	if t == nil {
		return nil
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fault.New(fault.Unavailable, "the request ended while it waited for its turn: %w",
			ctx.Err())
	}
}

// release returns a slot.
func (t limiter) release() {
	if t != nil {
		<-t
	}
}

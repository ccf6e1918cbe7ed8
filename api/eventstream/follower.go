package eventstream

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	keptChanges = 1 << 16
	interval    = 100 * time.Millisecond // at which a Source is asked for changes
	share       = 9                      // a Source rests at least this many times as long as its last answer took
	retryWait   = time.Second            // after an error of the database
	unwatched   = 5 * time.Minute        // after which the Log is dropped
)

// Source finds the changes of a service in its database. Its methods are called by one goroutine.
type Source interface {
	// Begin forgets what was read: the next Changes returns all objects.
	Begin()
	// Changes returns the objects that differ from those that earlier calls have returned, nil for one that is gone. It
	// may return more objects. After an error the next call returns the same changes, or newer ones.
	Changes(ctx context.Context) (map[Key]*Object, error)
	// End releases what was read, until the next Begin.
	End()
}

// Follower keeps a Log equal to the database, from the first client on until a while after the last one has left.
type Follower struct {
	source  Source
	log     *slog.Logger
	keep    time.Duration // how long a Log without clients is kept
	arrived chan struct{} // a client has come since Run checked last

	mu        sync.Mutex
	following *following // nil: no client has come
	clients   int
	left      time.Time // when the last client left
}

// following is a Log that follows the database.
type following struct {
	events *Log
	ready  chan struct{} // closed when the Log has the state of the database
}

// NewFollower returns a Follower. Nothing happens before Run and a call of Log.
func NewFollower(source Source, log *slog.Logger) *Follower {
	return &Follower{source: source, log: log, keep: unwatched, arrived: make(chan struct{}, 1)}
}

// Log returns the Log as soon as it has the state of the database. The client calls leave once when it no longer reads
// it. Log returns the error of ctx if that takes longer.
func (f *Follower) Log(ctx context.Context) (l *Log, leave func(), err error) {
	now := f.enter()
	select {
	case <-now.ready:
		return now.events, f.leave, nil
	case <-ctx.Done():
		f.leave()
		return nil, nil, ctx.Err()
	}
}

// enter counts a client, and begins to follow for the first one.
func (f *Follower) enter() *following {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.clients++
	if f.following == nil {
		f.following = &following{events: New(keptChanges), ready: make(chan struct{})}
	}
	select {
	case f.arrived <- struct{}{}:
	default:
	}
	return f.following
}

func (f *Follower) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.clients--
	f.left = time.Now()
}

// Run follows the database while there are clients, until ctx ends. Call it once.
func (f *Follower) Run(ctx context.Context) {
	for {
		select {
		case <-f.arrived:
			f.follow(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// follow follows the database until ctx ends or the last client has left a while ago.
func (f *Follower) follow(ctx context.Context) {
	if f.current() == nil {
		return
	}
	f.source.Begin()
	defer f.source.End()
	failing, ready := false, false
	for now := f.current(); now != nil; now = f.current() {
		began := time.Now()
		changes, err := f.source.Changes(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			now.events.Apply(changes)
			if !ready {
				ready = true
				close(now.ready)
			}
		case !failing:
			f.log.Warn("events not read, will retry", "error", err)
		}
		wait := max(interval, share*time.Since(began))
		if failing = err != nil; failing {
			wait = max(wait, retryWait)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

// current returns what follows the database. It drops that, and returns nil, if the last client has left a while ago.
func (f *Follower) current() *following {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.clients == 0 && time.Since(f.left) >= f.keep {
		f.following = nil
	}
	return f.following
}

package server

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/provider"
)

// announcements are sent to the other Placements on the database when this one has changed trees, and received when
// those have, so that a change is in the candidates of all after milliseconds and not after a poll. They exist only if
// the database passes them. What is lost is found by polling.
type announcements struct {
	name string        // of this process
	own  *waitingTrees // to be announced
	read *waitingTrees // announced by others, to be read again
}

func newAnnouncements(name string) *announcements {
	return &announcements{name: name, own: newWaitingTrees(), read: newWaitingTrees()}
}

// announce announces changed trees. It does not wait.
func (a *announcements) announce(roots []provider.ID) {
	if a != nil {
		a.own.add(roots)
	}
}

// waitingTrees are the roots of trees that wait until those before them have been sent or read, so that a busy server
// does that for many at a time.
type waitingTrees struct {
	some chan struct{} // has a token if there are any

	mu    sync.Mutex
	roots map[provider.ID]bool
}

// maxWaitingTrees is how many trees wait at most. More at once, such as those of a first start, are left to the polls.
const maxWaitingTrees = 5000

func newWaitingTrees() *waitingTrees {
	return &waitingTrees{some: make(chan struct{}, 1), roots: map[provider.ID]bool{}}
}

func (w *waitingTrees) add(roots []provider.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, root := range roots {
		if len(w.roots) < maxWaitingTrees {
			w.roots[root] = true
		}
	}
	select {
	case w.some <- struct{}{}:
	default:
	}
}

// follow passes the waiting trees to do until ctx ends. Its first error of several is logged.
func (w *waitingTrees) follow(ctx context.Context, failed func(error), do func([]provider.ID) error) {
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.some:
		}
		w.mu.Lock()
		roots := slices.Sorted(maps.Keys(w.roots))
		clear(w.roots)
		w.mu.Unlock()
		err := do(roots)
		if err != nil && ctx.Err() == nil && !failing {
			failed(err)
		}
		failing = err != nil
	}
}

const (
	announceTimeout = 5 * time.Second // for one announcement
	listenAgain     = time.Second     // before the connection for announcements is opened again
)

// runAnnouncements sends and receives announcements until ctx ends.
func (s *Server) runAnnouncements(ctx context.Context) {
	if s.announcements == nil {
		return
	}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		s.announcements.own.follow(ctx, func(err error) {
			s.service.Log.Warn("writes not announced to other processes, which find them by polling", "error", err)
		}, func(roots []provider.ID) error {
			ctx, cancel := context.WithTimeout(ctx, announceTimeout)
			defer cancel()
			return s.service.Store.Announce(ctx, s.announcements.name, roots)
		})
	})
	running.Go(func() {
		s.announcements.read.follow(ctx, func(err error) {
			s.service.Log.Warn("index refresh failed, will retry", "error", err)
		}, func(roots []provider.ID) error {
			defer s.changes.Touch(roots...)
			return s.service.Index.RefreshForeign(ctx, roots...)
		})
	})
	s.listen(ctx)
}

// listen receives the announcements of other processes until ctx ends.
func (s *Server) listen(ctx context.Context) {
	failing := false
	for ctx.Err() == nil {
		listening := func() { failing = false }
		err := s.service.Store.Announced(ctx, listening, func(writer string, roots []provider.ID) {
			if writer != s.announcements.name {
				s.announcements.read.add(roots)
			}
		})
		if err != nil && ctx.Err() == nil && !failing {
			s.service.Log.Warn("announcements of other processes not received, polling continues", "error", err)
			failing = true
		}
		_ = backoff.Sleep(ctx, listenAgain)
	}
}

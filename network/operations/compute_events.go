package operations

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/store"
)

var _ Compute = (*compute.Client)(nil)

// Reports reports events to compute. Compute of the service may be nil: then nothing is recorded.
type Reports struct{ *Service }

// maxReported is how many events one request reports.
const maxReported = 100

// deletePort removes a port in a transaction. If it belongs to a server the event for compute is recorded: a crash
// between both would leave the device of the port with the server.
func (s Reports) deletePort(ctx context.Context, tx *store.Tx, p store.Port) error {
	if err := tx.DeletePort(ctx, p); err != nil || !isServerPort(p) || s.Compute == nil {
		return err
	}
	e := store.Event{Base: store.Base{Project: p.Project}, Event: compute.PortDeleted, Server: p.Device, Port: p.ID}
	s.begin(&e.Base)
	return store.Put(ctx, tx, &e)
}

// wake makes Run look for events at once.
func (s Reports) wake() {
	select {
	case s.recorded <- struct{}{}:
	default: // it looks already
	}
}

// reportEvery is how often Run looks for events that another process on the database has recorded.
const reportEvery = time.Minute

// Run reports recorded events to compute until the context ends: those of an earlier process at once, others
// when they are recorded. While compute does not accept one, all are repeated after growing waits.
func (s Reports) Run(ctx context.Context) {
	if s.Compute == nil {
		return
	}
	waits := s.Times.waits()
	for failures := 0; ; {
		left, err := s.Once(ctx)
		if ctx.Err() != nil {
			return
		}
		wait := reportEvery
		if failures++; left == 0 && err == nil {
			failures = 0
		} else {
			wait = waits.Wait(failures)
			s.Log.Warn("events not accepted by compute, will retry", "events", left, "wait", wait, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-s.recorded:
		case <-time.After(wait):
		}
	}
}

// Once reports all recorded events once, and deletes those that compute has accepted or that are about no
// server. It returns the number of the others, and the first error.
func (s Reports) Once(ctx context.Context) (left int, err error) {
	recorded, err := List[store.Event](ctx, s.Service, store.Filter{})
	if err != nil {
		return 0, err
	}
	for some := range slices.Chunk(recorded, maxReported) {
		done, failed := s.report(ctx, some)
		if len(done) > 0 {
			written := s.Store.Write(ctx, func(tx *store.Tx) error {
				for _, id := range done {
					if err := store.Delete[store.Event](ctx, tx, id); err != nil {
						return err
					}
				}
				return nil
			})
			if failed = cmp.Or(failed, written); written != nil {
				done = nil
			}
		}
		if left += len(some) - len(done); err == nil {
			err = failed
		}
	}
	return left, err
}

// report reports some events, and returns the ids of those that must not be reported again.
func (s Reports) report(ctx context.Context, all []store.Event) (done []string, err error) {
	var events []compute.ExternalEvent
	var some []store.Event
	for _, e := range all {
		if e.Event == store.Guarantees {
			accepted, failed := guarantees{s.Service}.send(ctx, e)
			if accepted {
				done = append(done, e.ID)
			}
			err = cmp.Or(err, failed)
			continue
		}
		some = append(some, e)
		events = append(events, compute.ExternalEvent{Name: e.Event, Server: e.Server, Tag: e.Port})
	}
	if len(some) == 0 {
		return done, err
	}
	answers, failed := s.Compute.ReportEvents(ctx, events...)
	none := fault.Is(failed, fault.NotFound)
	switch {
	case failed != nil && !none:
		return done, failed
	case !none && len(answers) != len(some):
		return done, fault.New(fault.Unavailable, "compute has answered %d of %d events", len(answers),
			len(some))
	}
	for i, e := range some {
		if none || isFinal(answers[i].Code) {
			done = append(done, e.ID)
		} else {
			s.Log.Info("event not accepted by compute", "event", e.Event, "server", e.Server, "port", e.Port,
				"code", answers[i].Code)
		}
	}
	return done, err
}

// isFinal reports whether an event with this code must not be reported again: it is accepted, it is about a server that
// does not exist or that has no host and so no device, or compute does not understand it.
func isFinal(code int) bool {
	return slices.Contains([]int{http.StatusOK, http.StatusBadRequest, http.StatusNotFound,
		http.StatusUnprocessableEntity}, code)
}

package console

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/openberth/berth/api/eventstream"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/console/view"
	"github.com/openberth/berth/fault"
)

// The times of a page of the fleet that stays open.
const (
	liveShare = 9                // how many times as long as a read took the next one for an open page waits
	liveWait  = 30 * time.Second // after which the cloud is read also without an event: a host that is silent sends none
	retryTime = 10 * time.Second // between two connections to the events of a service
)

// liveState is what was read for a page that stays open.
type liveState struct {
	cloud *view.Cloud
	err   error
}

// fleetStream sends, as server-sent events, when the cloud was read again, until the client leaves. It is read again
// after events of Placement or compute. The page then loads the rows that it shows.
func (c *Console) fleetStream(w http.ResponseWriter, r *http.Request, one *session) error {
	release, err := one.openStream()
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(one.ctx, cancel)()
	s := stream{w: w, control: http.NewResponseController(w)}
	w.Header().Set("Content-Type", "text/event-stream")
	s.write("retry: 3000\n\n")
	states := make(chan liveState)
	go c.follow(ctx, one, states)
	beat := time.NewTicker(beatTime)
	defer beat.Stop()
	for s.err == nil {
		select {
		case now := <-states:
			if refused(now.err) {
				s.failed(now.err)
				return nil
			}
			s.state(now)
		case <-beat.C:
			s.write(": the stream is open\n\n")
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// state sends the time at which the cloud was read, or why it could not be read again.
func (s *stream) state(now liveState) {
	name, text := "stale", ""
	switch {
	case now.err != nil:
		text = fault.TextOf(now.err)
	case now.cloud == nil: // it was forgotten meanwhile
		return
	default:
		name, text = "read", now.cloud.Taken.UTC().Format(time.RFC3339Nano)
	}
	data, _ := json.Marshal(text) // a text is always encoded
	s.write("event: " + name + "\ndata: " + string(data) + "\n\n")
}

// follow sends what was read last, and then what is read after each event of Placement and compute, or after liveWait,
// until ctx ends. Events that come during a read or a pause lead to one more read.
func (c *Console) follow(ctx context.Context, one *session, states chan<- liveState) {
	changed := make(chan struct{}, 1)
	go watch(ctx, one.clients.Placement.REST, changed)
	if one.clients.Hosts != nil {
		go watch(ctx, one.clients.Compute.REST, changed)
	}
	for now := (liveState{cloud: one.read.known()}); ; {
		select {
		case states <- now:
		case <-ctx.Done():
			return
		}
		select {
		case <-changed:
		case <-time.After(liveWait):
		case <-ctx.Done():
			return
		}
		now.cloud, now.err = one.read.again(ctx, one.ctx, one.clients, c.rereading)
	}
}

// watch reports events of a service, until ctx ends. A service without events reports none.
func watch(ctx context.Context, client *rest.Client, changed chan<- struct{}) {
	for cursor := ""; ; {
		next, err := eventstream.Read(ctx, untimed(client), url.Values{}, cursor, func(eventstream.Event) error {
			select {
			case changed <- struct{}{}:
			default: // a change waits already
			}
			return nil
		})
		switch {
		case refused(err): // the next read fails too, and ends the session
			select {
			case changed <- struct{}{}:
			default:
			}
			return
		case fault.Is(err, fault.NotFound), fault.Is(err, fault.Forbidden):
			return
		}
		cursor = next
		if sleep(ctx, retryTime) != nil {
			return
		}
	}
}

// again reads the cloud again, as soon as a page that stays open may, and when turns has a place: the pages of all
// users do not read at the same time. It returns what was read, as get does.
func (r *reading) again(ctx, session context.Context, clients Clients, turns chan struct{}) (*view.Cloud,
	error) {
	r.mu.Lock()
	due := r.at.Add(max(freshTime, liveShare*r.took))
	r.mu.Unlock()
	if err := sleep(ctx, time.Until(due)); err != nil {
		return nil, err
	}
	select {
	case turns <- struct{}{}:
		defer func() { <-turns }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if wait, _ := r.begin(session, clients); wait != nil {
		select {
		case <-wait:
		case <-time.After(liveWait): // it goes on, and others may read meanwhile
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cloud, r.err
}

// sleep waits for a time; it returns the cause if ctx ends before.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

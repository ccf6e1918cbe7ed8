package reconcile

import (
	"time"

	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
)

// stream keeps a stream of assignments open, and reconnects when it ends.
type stream struct {
	*state.Core
	open        bool
	reconnected bool // no assignments were followed since the stream was opened
	failures    int
	retryAt     time.Time
}

// advance opens a stream if there is none.
func (s *stream) advance() {
	if s.open || s.Now.Before(s.retryAt) {
		return
	}
	s.open, s.reconnected = true, true
	request := host.WatchRequest{Host: s.Config.Host, Sender: s.Sender(), Position: s.position()}
	if s.Assignments.Received && s.Assignments.Position == request.Position && s.NotFollowed == "" {
		request.Since = s.Assignments.Position.Revision
	}
	s.DoAfterWrite(state.Watch{Request: request})
}

// ended waits before the next stream.
func (s *stream) ended(err error) {
	s.open = false
	s.Fence(err)
	s.failures++
	s.retryAt = s.Now.Add(s.Backoff(s.failures))
	s.Log("assignment stream ended, reconnecting", "error", err)
}

// deadline returns the time of the next stream; zero when one is open.
func (s *stream) deadline() time.Time {
	if s.open {
		return time.Time{}
	}
	return s.retryAt
}

// position returns the position of the newest assignments that were followed.
func (s *stream) position() host.Position { return host.Position(s.State.Position()) }

package reconcile

import (
	"time"

	"github.com/openberth/berth/api/host"
)

// stream keeps a stream of assignments open, and reconnects when it ends.
type stream struct {
	*core
	open        bool
	reconnected bool // no assignments were followed since the stream was opened
	failures    int
	retryAt     time.Time
}

// advance opens a stream if there is none.
func (s *stream) advance() {
	if s.open || s.now.Before(s.retryAt) {
		return
	}
	s.open, s.reconnected = true, true
	request := host.WatchRequest{Host: s.config.Host, Sender: s.sender(), Position: s.position()}
	if s.assignments.received && s.assignments.position == request.Position && s.notFollowed == "" {
		request.Since = s.assignments.position.Revision
	}
	s.doAfterWrite(Watch{Request: request})
}

// ended waits before the next stream.
func (s *stream) ended(err error) {
	s.open = false
	s.fence(err)
	s.failures++
	s.retryAt = s.now.Add(s.backoff(s.failures))
	s.log("assignment stream ended, reconnecting", "error", err)
}

// deadline returns the time of the next stream; zero when one is open.
func (s *stream) deadline() time.Time {
	if s.open {
		return time.Time{}
	}
	return s.retryAt
}

// position returns the position of the newest assignments that were followed.
func (s *stream) position() host.Position { return host.Position(s.state.Position()) }

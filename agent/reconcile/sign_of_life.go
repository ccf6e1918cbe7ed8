package reconcile

import (
	"cmp"
	"time"

	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// followedInterval is the default of Times.Followed.
const followedInterval = time.Second

// vitality sends signs of life between two host reports, and one soon after assignments were followed. It sends none
// while the last report was not accepted: a sign of life means that compute has the state of the host.
type vitality struct {
	*state.Core
	reporter *reporter
	sending  bool
	sent     host.Position // of the sign of life in progress
	lastAt   time.Time     // when the last one ended
	failing  string        // the last fault; empty after a success
}

// advance sends a sign of life if one is due.
func (h *vitality) advance() {
	if h.deadline().IsZero() || h.Now.Before(h.deadline()) {
		return
	}
	h.sending, h.sent = true, host.Position(h.Durable.Position())
	from := h.Sender()
	h.Do(state.SendAlive{Alive: host.Alive{Instance: from.Instance, Start: from.Start, Position: h.sent}})
}

// deadline returns the time of the next sign of life; zero while none may be sent.
func (h *vitality) deadline() time.Time {
	if h.sending || h.Fenced || h.reporter.failures > 0 {
		return time.Time{}
	}
	last := h.lastAt
	if h.reporter.lastAt.After(last) {
		last = h.reporter.lastAt
	}
	due := last.Add(cmp.Or(h.Config.Times.Alive, host.AliveInterval))
	if host.Position(h.Durable.Position()) != h.Acknowledged && h.NotFollowed == "" {
		return state.Earlier(h.lastAt.Add(cmp.Or(h.Config.Times.Followed, followedInterval)), due)
	}
	return due
}

// ended records compute's answer. NotFound: compute has restarted, and needs the host report. The answer to
// syncer.reportFailure has no effect.
func (h *vitality) ended(err error) {
	if !h.sending {
		return
	}
	h.sending, h.lastAt = false, h.Now
	switch {
	case err == nil:
		h.Acknowledged, h.failing = h.sent, ""
		return
	case fault.Is(err, fault.NotFound):
		h.ReportChanged()
	case h.failing != err.Error():
		h.Warn("sign of life not sent, will retry", "error", err)
	}
	h.failing = err.Error()
	h.Fence(err)
}

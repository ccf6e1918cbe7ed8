package conductor

import (
	"context"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
)

// StartFailed records why a start of an agent cannot report its host, until the host reports. What the last report of
// an earlier start says of guests and devices stays. It returns fault.Conflict because of *Occupied if another start
// serves the host.
func (m *monitor) StartFailed(ctx context.Context, host string, from schedule.Sender, why string) error {
	known, err := m.store.Host(ctx, host)
	switch {
	case err == nil && known.Instance == from.Instance && known.Start == from.Start:
		return nil // its first report has overtaken this
	case err == nil:
		err = m.admit(known, from)
	case fault.Is(err, fault.NotFound):
		err = nil
	}
	if err == nil {
		m.presence.startFailed(host, why)
	}
	return err
}

// StartFailures returns why the starts of agents cannot report their hosts, by host, unless they are silent.
func (m *monitor) StartFailures() map[string]StartFailure {
	out := map[string]StartFailure{}
	for _, host := range m.presence.failedStarts() {
		if failure := m.StartFailure(host); failure.Why != "" {
			out[host] = failure
		}
	}
	return out
}

// StartFailure returns why the present start of a host's agent cannot report it; Why is empty if it has, or is silent.
func (m *monitor) StartFailure(host string) StartFailure {
	return m.presence.startFailure(host, m.Silence)
}

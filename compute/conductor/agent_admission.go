package conductor

import (
	"context"
	"time"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
)

// Occupied is the cause of the fault when a start of an agent is not admitted because another one serves the host.
type Occupied struct {
	Reason string
	Wait   time.Duration // retry after this; 0: the start is refused until the other one has ended
}

// Error returns the sentence.
func (o *Occupied) Error() string { return o.Reason }

// Admit returns nil if a start of an agent may serve the host, and fault.Conflict because of *Occupied if another start
// serves it.
func (c *Conductor) Admit(ctx context.Context, host string, from schedule.Sender) error {
	known, err := c.store.Host(ctx, host)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return c.admit(known, from)
}

func (d *dependencies) admit(known schedule.Host, from schedule.Sender) error {
	_, quiet := d.presence.lastSign(known.Name)
	refusal, wait := known.Admit(from, schedule.Liveness{Quiet: quiet, Silence: d.Silence})
	if refusal == "" {
		return nil
	}
	return fault.Wrap(fault.Conflict, &Occupied{Reason: refusal, Wait: wait})
}

// Report stores the report of a host and admits the start of the agent that sends it. It returns fault.Conflict because
// of *Occupied if another start serves the host.
func (c *Conductor) Report(ctx context.Context, h schedule.Host, from schedule.Sender) error {
	h.Instance, h.Start, h.LockID = from.Instance, from.Start, from.LockID
	if err := c.store.PutReport(ctx, h, func(known schedule.Host) error { return c.admit(known, from) }); err != nil {
		return err
	}
	c.presence.reported(h)
	return nil
}

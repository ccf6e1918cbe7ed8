package presence

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
func (a *Agents) Admit(ctx context.Context, host string, from schedule.Sender) error {
	known, err := a.store.Host(ctx, host)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return a.admit(known, from)
}

func (a *Agents) admit(known schedule.Host, from schedule.Sender) error {
	_, quiet := a.LastSign(known.Name)
	refusal, wait := known.Admit(from, schedule.Liveness{Quiet: quiet, Silence: a.Silence,
		Reconnect: a.Reconnect})
	if refusal == "" {
		return nil
	}
	return fault.Wrap(fault.Conflict, &Occupied{Reason: refusal, Wait: wait})
}

// Report stores the report of a host and admits the start of the agent that sends it. It returns fault.Conflict because
// of *Occupied if another start serves the host.
func (a *Agents) Report(ctx context.Context, h schedule.Host, from schedule.Sender) error {
	h.Instance, h.Start, h.LockID = from.Instance, from.Start, from.LockID
	if err := a.store.PutReport(ctx, h, func(known schedule.Host) error { return a.admit(known, from) }); err != nil {
		return err
	}
	a.Reported(h)
	return nil
}

// CheckAdmitted returns fault.Conflict unless start is the admitted start of the agent of a host.
func (a *Agents) CheckAdmitted(ctx context.Context, host, instance, start string) error {
	h, err := a.store.Host(ctx, host)
	switch {
	case fault.Is(err, fault.NotFound):
		return fault.New(fault.Conflict, "no agent is admitted for host %s; send the report of the host first", host)
	case err != nil:
		return err
	case h.Instance != instance || h.Start != start:
		return fault.New(fault.Conflict,
			"another agent serves host %s; what instance %s reports of guests is not accepted", host, instance)
	}
	return nil
}

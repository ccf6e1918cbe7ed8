package loop

import (
	"context"
	"errors"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

const (
	sequenceTries    = 3       // attempts to send one guest report with a sufficient number
	sequencePerStart = 1 << 32 // numbers available to one start of the agent
)

// reportGuest sends the state of a server to compute, and returns nil when compute has stored it.
//
// Each report has a number, so that compute recognises the latest one in whatever order they arrive. Numbers also rise
// from one start of the agent to the next: the journal counts the starts. Compute refuses a number as too low when
// another report of this agent about the same server was faster, or when the journal was restored from a backup. Then
// the report is sent again with a larger number.
func (a *Agent) reportGuest(ctx context.Context, id string, g host.Guest) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	var err error
	for range sequenceTries {
		a.mu.Lock()
		a.sequence++
		g.Instance, g.Start, g.Number = a.instance, a.startID, a.starts*sequencePerStart+a.sequence
		a.mu.Unlock()
		err = a.o.Compute.PutGuest(ctx, a.o.Host, id, g)
		late, is := errors.AsType[*host.Late](err)
		if !is {
			break
		}
		if err := a.raiseSequence(late.Number); err != nil {
			return fault.Wrap("", "loop.reportGuest", err)
		}
	}
	return fault.Wrap("", "loop.reportGuest", err)
}

// raiseSequence makes the next numbers larger than one that compute has stored.
func (a *Agent) raiseSequence(number int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.starts*sequencePerStart+a.sequence >= number {
		return nil
	}
	id, _ := a.journal.Identity()
	starts := number/sequencePerStart + 1
	id.Starts = starts
	if err := a.journal.SetIdentity(id); err != nil {
		return err
	}
	a.starts, a.sequence = starts, 0
	a.log.Warn("guest report numbers raised (journal restored from a backup?)", "number", number)
	return nil
}

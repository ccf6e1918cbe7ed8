package loop

import (
	"context"
	"errors"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

const (
	sequenceTries    = 3       // how often compute may say that something is told too late before the job is tried anew
	sequencePerStart = 1 << 32 // numbers that one start of an agent has
)

// tell says what became of a server; nil means that compute has taken it in.
//
// What is said bears a number, so that compute knows what was said last whatever comes first. It rises also from one agent of a journal to the
// next: the journal counts them. Compute says that a number is too late when another word of this agent about the same server was faster, or
// when the journal is older than what compute has heard, as one from a backup. Then it is said again with a larger one.
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
			return fault.Wrap("", "loop.tell", err)
		}
	}
	return fault.Wrap("", "loop.tell", err)
}

// countFrom makes the numbers larger than one that compute has heard.
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
	a.log.Warn("compute has heard more of this agent than its journal knows, as when the journal is from a backup; it counts on from there", "number", number)
	return nil
}

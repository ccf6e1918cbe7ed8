package state

import (
	"errors"
	"time"

	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fault"
)

// longestTakeover is the maximum time for which a start waits for the previous one to end.
const longestTakeover = 5 * time.Minute

// BeginStart creates the identity of this start. The fault is Conflict when the journal was written on another machine.
func (c *Core) BeginStart(id string) error {
	known, _ := c.State.Identity()
	if here := c.Config.Machine.ID; known.Machine != "" && here != "" && known.Machine != here {
		return fault.New(fault.Conflict,
			"the agent's directory %s was written on another machine (machine-id %s, here it is %s), "+
				"so it is a copy and its guests are not here; if this machine replaces that one for good, run `berth agent adopt`",
			c.Config.Dir, known.Machine, here)
	}
	c.Start = start{Instance: known.Instance, Number: known.Starts + 1, id: id, sequence: firstSequence(id)}
	if c.Start.Instance == "" {
		c.Start.Instance = c.Config.NewID()
	}
	c.Start.Ids = append(c.State.Starts(), id)
	c.Start.Ids = c.Start.Ids[max(0, len(c.Start.Ids)-host.MaxPrevious):]
	return nil
}

// RecordStart records that another start of the agent has begun. Without an identity in the journal, the first sync
// does that, before anything is reported.
func (c *Core) RecordStart() {
	id, written := c.State.Identity()
	if !written {
		return
	}
	id.Instance, id.Starts, id.Machine = c.Start.Instance, c.Start.Number, c.Config.Machine.ID
	c.WriteIdentity(id)
	c.Record(journal.Starts(c.Start.Ids))
}

// AcknowledgeStart records that compute has stored a report of this start: earlier starts are no longer reported.
func (c *Core) AcknowledgeStart() {
	if len(c.Start.Ids) > 1 {
		c.Start.Ids = []string{c.Start.id}
		c.Record(journal.Starts(c.Start.Ids))
	}
}

// Takeover returns how long a refused start must wait for the previous one to end; 0: it must not.
func Takeover(err error) time.Duration {
	taken, is := errors.AsType[*host.Occupied](err)
	if !is || taken.Wait > longestTakeover {
		return 0
	}
	return taken.Wait
}

// Fence handles the fault of a report or a watch: a Conflict means that another agent serves the host, Forbidden that
// compute rejects the account of this one. Then this agent changes nothing until compute accepts a report.
func (c *Core) Fence(err error) {
	if !fault.Is(err, fault.Conflict) && !fault.Is(err, fault.Forbidden) || c.Fenced {
		return
	}
	c.Fenced, c.Wake = true, true
	c.Condition(condition.Instance, "", fault.TextOf(err)+"; until then nothing is built or destroyed")
}

// Unfence resumes work after compute has accepted a report. The guests are reported again: another agent may have
// reported them meanwhile.
func (c *Core) Unfence() {
	if !c.Fenced {
		return
	}
	c.Fenced, c.Wake, c.WantSync = false, true, true
	clear(c.Acked)
	c.Condition(condition.Instance, "")
}

// Sender returns how this start of the agent identifies itself to compute.
func (c *Core) Sender() host.Sender {
	from := host.Sender{Instance: c.Start.Instance, Start: c.Start.id, LockID: c.Config.Machine.LockID}
	for _, id := range c.Start.Ids {
		if id != c.Start.id {
			from.Previous = append(from.Previous, id)
		}
	}
	return from
}

package reconcile

import (
	"errors"
	"time"

	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// longestTakeover is the maximum time for which a start waits for the previous one to end.
const longestTakeover = 5 * time.Minute

// beginStart creates the identity of this start. The fault is Conflict when the journal was written on another machine.
func (c *core) beginStart(id string) error {
	known, _ := c.state.Identity()
	if here := c.config.Machine.ID; known.Machine != "" && here != "" && known.Machine != here {
		return fault.New(fault.Conflict,
			"the agent's directory %s was written on another machine (machine-id %s, here it is %s), "+
				"so it is a copy and its guests are not here; if this machine replaces that one for good, run `berth agent adopt`",
			c.config.Dir, known.Machine, here)
	}
	c.start = start{instance: known.Instance, number: known.Starts + 1, id: id, sequence: firstSequence(id)}
	if c.start.instance == "" {
		c.start.instance = c.config.NewID()
	}
	c.start.ids = append(c.state.Starts(), id)
	c.start.ids = c.start.ids[max(0, len(c.start.ids)-host.MaxPrevious):]
	return nil
}

// recordStart records that another start of the agent has begun. Without an identity in the journal, the first sync
// does that, before anything is reported.
func (c *core) recordStart() {
	id, written := c.state.Identity()
	if !written {
		return
	}
	id.Instance, id.Starts, id.Machine = c.start.instance, c.start.number, c.config.Machine.ID
	c.writeIdentity(id)
	c.record(journal.Starts(c.start.ids))
}

// acknowledgeStart records that compute has stored a report of this start: earlier starts are no longer reported.
func (c *core) acknowledgeStart() {
	if len(c.start.ids) > 1 {
		c.start.ids = []string{c.start.id}
		c.record(journal.Starts(c.start.ids))
	}
}

// takeover returns how long a refused start must wait for the previous one to end; 0: it must not.
func takeover(err error) time.Duration {
	taken, is := errors.AsType[*host.Occupied](err)
	if !is || taken.Wait > longestTakeover {
		return 0
	}
	return taken.Wait
}

// fence handles the fault of a report or a watch: a Conflict means that another agent serves the host, Forbidden that
// compute rejects the account of this one. Then this agent changes nothing until compute accepts a report.
func (c *core) fence(err error) {
	if !fault.Is(err, fault.Conflict) && !fault.Is(err, fault.Forbidden) || c.fenced {
		return
	}
	c.fenced, c.wake = true, true
	c.condition("instance", fault.TextOf(err)+"; until then nothing is built or destroyed")
}

// unfence resumes work after compute has accepted a report.
func (c *core) unfence() {
	if !c.fenced {
		return
	}
	c.fenced, c.wake, c.wantSync = false, true, true
	c.condition("instance")
}

// sender returns how this start of the agent identifies itself to compute.
func (c *core) sender() host.Sender {
	from := host.Sender{Instance: c.start.instance, Start: c.start.id, LockID: c.config.Machine.LockID}
	for _, id := range c.start.ids {
		if id != c.start.id {
			from.Previous = append(from.Previous, id)
		}
	}
	return from
}

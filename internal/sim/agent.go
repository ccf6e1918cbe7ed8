package sim

import (
	"time"

	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/reconcile"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/resource"
)

// disk is the directory of an agent.
type disk struct {
	state    journal.State // as the process that has opened the journal reads it
	found    journal.State // as the next process will find it: a failed write may have left its first entries
	followed stamp         // oracle: the state of compute's database of which the newest assignments in found were
	durable  stamp         // oracle: the same of state
}

// agent is one process of the agent of a machine: the production state machine, and what it waits for. It is lost when
// the process ends.
type agent struct {
	state    *reconcile.State
	start    string          // id of the process
	sender   schedule.Sender // as it has identified itself last
	effects  []*effect       // in progress
	watch    *state.Watch
	stream   *stream   // nil: none is open
	ended    bool      // the stream has ended, and the agent has not noticed it yet
	inbox    *delivery // assignments that an earlier process of compute has sent and that the agent has yet to read
	deadline time.Time // by which it must get a Tick; zero: none

	observed  int                          // oracle: restores of Placement before it has read its tree last
	unwritten bool                         // decisions are not in the journal yet
	received  bool                         // it has followed assignments
	facts     *state.Observation           // of the first sync, for an agent that is broken on purpose
	followed  map[journalPosition]stamp    // oracle: of what it has followed and not yet journalled
	named     map[string]bool              // oracle: guests that the followed assignments have named for removal
	placed    map[resource.ConsumerID]bool // oracle: consumers of which it may write the allocations that it has read
	confirmed map[string]bool              // oracle: consumers of which compute has accepted a report of this process
}

// effect is an effect in progress.
type effect struct {
	state.Effect
	cancelled bool
	compute   *process    // when the effect began
	named     bool        // oracle: a guest to destroy was named for removal when the effect began
	result    state.Event // not delivered yet; nil: the effect is not performed
}

// journalPosition is a position in the type of the journal.
type journalPosition = journal.Position

// delivery is a message of assignments on its way to an agent.
type delivery struct {
	assignments host.Assignments
	changed     stamp // oracle: when the assignments became so
	state       stamp // oracle: of compute's database then
}

// stream is an open stream of assignments.
type stream struct {
	past   *host.Position // what compute returned of the epoch that the agent named
	read   int64          // revision of the last message; -1: none
	closed func()         // ends the stream in compute
}

// change appends entries to the journal of a machine whose agent does not run, as the commands of an operator do.
func (d *disk) change(entries ...journal.Entry) {
	d.found = d.found.With(entries...)
	d.state = d.found
}

// noteNamed notes which guests the assignments that an agent follows name for removal.
func (a *agent) noteNamed(l host.Assignments) {
	for _, r := range l.Remove {
		a.named[r.ID], a.named[r.PreviousID] = true, true
	}
	for _, want := range l.Servers {
		delete(a.named, want.ID)
	}
}

// behind returns why the agent does not follow the assignments; empty if it does.
func (a *agent) behind() string { return a.state.Report().NotFollowed }

// unassigned lists the guests that the assignments do not mention. Nothing is known while they are not followed.
func (a *agent) unassigned() (list []string) {
	report := a.state.Report()
	for _, g := range report.Guests {
		if !g.Assigned && report.NotFollowed == "" {
			list = append(list, g.ID)
		}
	}
	return list
}

package sim

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/survey"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// What may come between.
var (
	errCrash    = errors.New("the agent is no more")
	errLost     = errors.New("there is no answer")
	errNotYet   = errors.New("others have yet to leave")
	errNo       = errors.New("compute does not accept it")
	errRefused  = errors.New("the hypervisor refuses the change")
	errOccupied = errors.New("another agent serves the host")
)

// phase is how far an agent has come since its process began.
type phase int

const (
	asks    phase = iota // compute is to be asked whether this start may serve the host
	looks                // the host and Placement are to be looked at for the first time
	reports              // compute is to have the first report
	serves
)

// agent is what is lost at a restart.
type agent struct {
	phase    phase
	instance string
	start    string   // id of this process
	startIDs []string // of this process and of those before it that compute has not acknowledged
	starts   int64
	words    int64 // how much this process has said of guests

	set       device.Set
	restored  bool
	tree      provider.Tree
	look      bool          // it ought to compare itself with Placement
	lookAt    time.Duration // not before
	displaced bool          // another agent serves the host

	closed    func()         // ends the stream of assignments
	connected bool           // it has a stream of assignments
	past      *host.Position // what compute said when the stream was opened of the epoch that the agent named
	read      int64          // revision of the last line of the stream
	behind    string         // why the lines are not followed; empty when they are

	heard     bool // it has followed a line; the next five are of the last one
	beats     int  // lines that were read, also those that say the same again
	position  host.Position
	wants     map[string]want
	remove    map[string]host.Removal
	removed   map[string]removalAt // removals whose end compute knows
	confirmed map[string]string    // keys of the wants that compute has confirmed
	fresh     map[string]bool      // servers whose claim compute has just confirmed
	acked     map[string]fate
	doomed    map[string]fate
	tries     map[string]int           // by id, failures in a row
	retry     map[string]time.Duration // by id, not before
	waiting   map[string]time.Duration // by id, since when it waits for others to leave
	lacked    map[resource.ConsumerID]lack
}

// removalAt tells one naming of a removal from another: compute repeats it at each revision until it knows the end.
type removalAt struct {
	position host.Position
	removal  host.Removal
}

// fate is what became of what was wanted.
type fate struct {
	key   string // of the want
	phase string
	why   string
}

// crashes says whether the agent dies at this point. Points are between writes to the disk, calls and acts of the
// hypervisor.
func (w *World) crashes(m *simHost) error {
	if !w.chance(Crashes, 400) {
		return nil
	}
	w.report.Happened["crash"]++
	w.halt(m)
	return errCrash
}

// halt ends the agent: what it has in memory is lost.
func (w *World) halt(m *simHost) {
	w.disconnect(m)
	m.agent, m.inbox = nil, nil
	m.stir()
}

// start begins an agent. It reads the journal, and writes that one more start has begun. False: the journal was written
// on another machine.
func (w *World) start(m *simHost) bool {
	id := m.book.identity
	if id.install != "" && id.install != m.install {
		w.report.Happened["copy on another machine"]++
		return false
	}
	a := &agent{instance: cmp.Or(id.instance, w.name("i")), start: w.name("p"), starts: id.starts + 1,
		wants: map[string]want{}, remove: map[string]host.Removal{}, removed: map[string]removalAt{},
		confirmed: map[string]string{}, fresh: map[string]bool{},
		acked: map[string]fate{}, doomed: map[string]fate{}, tries: map[string]int{}, retry: map[string]time.Duration{},
		waiting: map[string]time.Duration{}}
	a.startIDs = append(slices.Clone(m.book.starts), a.start)
	a.startIDs = a.startIDs[max(0, len(a.startIDs)-host.MaxPrevious):]
	m.agent, m.behind, m.wait, m.stuck = a, true, 0, false
	m.zombie = m.zombie || m.host.row.dead
	if id.instance != "" { // else with the first look at the host
		m.writeStart()
	}
	w.mark(m)
	return true
}

// writeStart journals who the agent is and that it has begun.
func (m *simHost) writeStart() {
	a := m.agent
	m.book.identity.instance, m.book.identity.starts, m.book.identity.install = a.instance, a.starts, m.install
	m.book.starts = a.startIDs
}

// sender is how this start of the agent identifies itself to compute.
func (m *simHost) sender() schedule.Sender {
	a := m.agent
	return schedule.Sender{Instance: a.instance, Start: a.start, ProcessSpace: fmt.Sprintf("%s/%d", m.tag, m.boot),
		Previous: slices.DeleteFunc(slices.Clone(a.startIDs), func(id string) bool { return id == a.start })}
}

// begin does the next step of an agent's start. Compute is asked before Placement is written to, and again with the
// first report. A compute that does not answer holds nothing up.
func (w *World) begin(m *simHost) error {
	a := m.agent
	switch a.phase {
	case asks:
		if !w.chance(Messages, 20) {
			if refused, wait := w.compute.admit(m); refused {
				return w.turnedAway(m, wait)
			}
		}
		a.phase = looks
	case looks:
		err := w.firstLook(m)
		if m.agent == nil || !a.restored || err == errLost {
			return err
		}
		a.phase = reports
	case reports:
		wait, err := w.deliver(m)
		if err == errOccupied {
			return w.turnedAway(m, wait)
		}
		a.phase = serves
	}
	m.stir()
	return w.crashes(m)
}

// firstLook is the first sync. A configuration that it refuses is taken back, as an operator would. A new journal is
// deleted again first: the classes of the refused configuration have been written to it.
func (w *World) firstLook(m *simHost) error {
	fresh := m.book.identity.instance == ""
	err := w.sync(m)
	for try := 1; m.agent != nil && fault.Is(err, fault.Invalid); try++ {
		w.report.Happened["start refused"]++
		if m.agent.restored = false; fresh {
			m.book = newBook()
		}
		if try > usualRules+1 {
			w.refusedForGood(m, err)
			return err
		}
		if m.rule = (m.rule + 1) % usualRules; try == usualRules+1 {
			w.offerHeld(m)
		}
		err = w.sync(m)
	}
	return err
}

// refusedForGood ends an agent that accepts no configuration. That may happen only after Placement's database was
// restored, which then has another class on a provider than the guests hold. The operator repairs Placement first.
func (w *World) refusedForGood(m *simHost, err error) {
	if len(w.robbed) == 0 {
		w.miss(m, "start: no configuration is taken: %v", err)
	}
	w.report.Happened["start refused for good"]++
	w.halt(m)
	m.stuck = true
}

// turnedAway ends a start that compute does not admit, unless it may ask again soon.
func (w *World) turnedAway(m *simHost, wait time.Duration) error {
	w.report.Happened["start not admitted"]++
	if wait > 0 {
		w.pauseUntil(m, wait)
	} else {
		w.halt(m)
	}
	return errOccupied
}

// pauseUntil has the agent do nothing for a while.
func (w *World) pauseUntil(m *simHost, wait time.Duration) {
	m.wait = w.clock + wait
	w.wakeAfter(m, wait)
}

// send tells compute what the host has.
func (w *World) send(m *simHost) error {
	_, err := w.deliver(m)
	return err
}

// deliver is send. With errOccupied, wait is after how long the agent may ask again; 0: it does not help.
func (w *World) deliver(m *simHost) (wait time.Duration, err error) {
	if m.cut || w.chance(Messages, 60) {
		return 0, errLost
	}
	a := m.agent
	r, unassigned := w.snapshot(m)
	if wait, err = w.compute.takeReport(m, r); err == errOccupied {
		a.displaced = true
		w.report.Happened["displaced"]++
	}
	if err != nil {
		return wait, err
	}
	if w.chance(Messages, 60) {
		return 0, errLost
	}
	m.behind, m.told, a.displaced = false, unassigned, false
	if len(a.startIDs) > 1 {
		m.book.starts, a.startIDs = []string{a.start}, []string{a.start}
	}
	return 0, nil
}

// snapshot is the report of a host, and the unassigned guests in it as one text.
func (w *World) snapshot(m *simHost) (schedule.Host, string) {
	a := m.agent
	h := schedule.Host{Name: m.name, Provider: m.root, InPlacement: true, Behind: a.behind}
	h.Cells, h.Counted = m.used("")
	for _, e := range a.set.Entries() {
		if e.Device.Type == "" {
			continue
		}
		h.Devices = append(h.Devices, schedule.Device{Device: e.Device, ResourceClass: e.Class, Traits: e.Traits,
			Provider: e.Provider, State: schedule.State(e.State), Holder: string(e.Holder), RequestID: e.Request,
			ForPorts: e.ForPorts, RemoteManaged: e.RemoteManaged,
			LiveMigratable: e.LiveMigratable, OneTimeUse: slices.Contains(e.Traits, survey.OneTimeUse), Spent: m.spent(e)})
	}
	unassigned := m.unassigned()
	h.Present = m.present(unassigned)
	return h, fmt.Sprint(unassigned)
}

// spent says whether a device has been used and must be cleaned: the journal knows it, or Placement has it reserved.
func (m *simHost) spent(e device.Entry) bool {
	if e.Spent || !slices.Contains(e.Traits, survey.OneTimeUse) {
		return e.Spent
	}
	if mark, known := m.book.spent[e.Device.Address]; known {
		return !mark.returning
	}
	p, _ := m.agent.tree.ByID(e.Provider)
	inv, has := p.Inventories[e.Class]
	return has && e.Holder == "" && inv.Reserved >= inv.Total
}

const (
	tellTries = 3       // how often compute may say that something is told too late before the job is tried anew
	perStart  = 1 << 32 // numbers that one start of an agent has
)

// tell says what became of a server; nil means that compute has taken it in. What is said may be lost, come late or
// twice, or the answer is lost.
func (w *World) tell(m *simHost, id string, e lifecycle.Event) error {
	a := m.agent
	for range tellTries {
		if m.cut || w.chance(Messages, 60) {
			return errLost
		}
		a.words++
		told := lifecycle.Report{Host: m.name, Instance: a.instance, Number: a.starts*perStart + a.words, Event: e}
		seldom := 120
		if w.broken == Uncounted || w.broken == Anyone {
			seldom = 8
		}
		if w.chance(Messages, seldom) {
			w.late = append(w.late, letter{m, id, a.start, told})
			return errLost
		}
		latest, err := w.compute.reportGuest(id, a.start, told)
		if w.chance(Messages, 60) {
			latest, err = w.compute.reportGuest(id, a.start, told)
		}
		if w.chance(Messages, 60) {
			return errLost
		}
		if latest == 0 {
			return cmp.Or(err, w.crashes(m))
		}
		if told.Number < latest { // the journal is older than what compute has heard
			a.starts, a.words = latest/perStart+1, 0
			m.book.identity.starts = a.starts
			w.report.Happened["counted on"]++
		}
	}
	return errNo
}

// picks are what a guest holds, as compute is told.
func (m *simHost) picks(id string) []schedule.Picked {
	var out []schedule.Picked
	for _, c := range m.agent.set.Held(resource.ConsumerID(id)) {
		out = append(out, schedule.Picked{RequestID: c.Request, Address: c.Device.Address.String(), Provider: c.Provider})
	}
	return out
}

// clean gives a device for one-time use back, as an operator wishes, when there is one to be cleaned.
func (w *World) clean(m *simHost, at pci.Address) bool {
	e, there := m.agent.set.At(at)
	if !there || e.Holder != "" || !m.spent(e) {
		return false
	}
	w.cleaned[e.Provider] = true
	m.book.spent[at] = spent{m.book.spent[at].in, true}
	m.agent.set = m.agent.set.Spend(at, false)
	m.behind, m.agent.look = true, true
	return true
}

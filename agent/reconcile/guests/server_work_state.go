// Package guests makes the guests of a host match the assignments: it claims devices, builds, changes, renames and
// removes guests, one effect at a time for each server.
package guests

import (
	"cmp"
	"slices"
	"time"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// Works is the work on the servers that are not reconciled. The work on one server is a sequence of attempts, and an
// attempt is a sequence of effects, one at a time: after each, next decides from the whole state which effect comes
// then. So whatever a crash ended continues at the next start.
type Works struct {
	*state.Core
	*renamer
	byID     map[string]*work
	Building int // number of attempts on assigned servers whose disk is neither copied nor uploaded
	copying  int // number of those whose disk is copied from another guest, or uploaded
	restarts map[string]restarts
}

// NewWorks returns the work on no servers.
func NewWorks(c *state.Core) *Works {
	return &Works{Core: c, renamer: &renamer{c}, byID: map[string]*work{}, restarts: map[string]restarts{}}
}

// work is the state of the work on one server until it is reconciled.
type work struct {
	id            string
	failures      int        // attempts that failed
	buildFailures int        // builds that failed in the hypervisor
	buildFailing  time.Time  // of the first of them
	retryAt       time.Time  // earliest time of the next attempt
	waitingSince  time.Time  // start of the wait for other servers to leave
	acked         host.Phase // the last phase that compute has; empty: not known
	requested     bool       // the assignment has changed since compute had the last report
	happened      string     // to the guest without a request, not yet reported
	server        string     // of the guest that was destroyed, if that has another id
	attempt       *attempt   // in progress; nil: none
}

// attempt is one attempt to reconcile a server: why it was made, and what it has done that the state of the host does
// not show.
type attempt struct {
	want      host.Server // the assignment; without an ID: none
	removal   host.Removal
	version   state.RemovalVersion
	effect    state.Effect // in progress, or held until the journal is written
	cancelled bool         // the assignments have changed, or are not followed any more

	allocation
	claimed   bool            // compute has the claim
	destroyed map[string]bool // guests that the hypervisor has destroyed and not built since
	build     int             // rebuild count of a departed guest that was destroyed
	ready     readiness       // for the guest
	vfsReset  map[string]bool // resetKeys of VFs that were reset since guests were destroyed
	creating  bool            // the guest did not exist when its build began
	freed     bool            // the claims are freed
	departure *host.Guest     // result of a migration, not yet reported
	lateCount int             // guest reports whose number was too low
	report    reportWait
	refused
	unrequested unrequested
	final       bool // compute has the final report
}

// allocation is what the allocation of the server in Placement has.
type allocation struct {
	verified bool          // it covers the assignment
	onNodes  bool          // it has what the cells use of NUMA nodes
	slots    []pci.Request // for the I/O slots that it names and the assignment does not
}

// refused is what the hypervisor has refused in an attempt.
type refused struct {
	refusal error              // not yet reported
	listed  []hypervisor.Guest // of the hypervisor; nil: not listed
	retryIn time.Duration      // the wait before the next attempt; 0: the usual one
}

// unrequested is what an attempt does that no user and no assignment has requested.
type unrequested struct {
	why  string // the guest is changed
	late bool   // the guest has appeared after its server was removed
}

// readiness is what an attempt has done for a guest beside its build.
type readiness struct {
	vfs      bool // its VFs are configured
	cards    bool // the PFs that it gets as a whole have no VFs
	received bool // the host is prepared for its arrival by live migration
	settled  bool // no live migration of it is in progress, and it is here

	upload *host.DiskUpload // result of the last Upload, not yet reported
}

func isAwaitReport(e state.Effect) bool {
	_, is := e.(state.AwaitReport)
	return is
}

// reportWait is a wait for a host report.
type reportWait struct {
	version int  // of the report that compute must have; 0: none yet
	refused bool // compute has refused it: the state of the server can be reported nevertheless
}

// restarts are the starts of a guest that has not been requested.
type restarts struct {
	count int
	last  time.Time
}

// matches reports whether a guest is as its server's assignment requires. A guest with more rebuilds than compute
// records also matches: compute's database may have been restored, and a rebuild replaces the guest's disk.
func matches(g hypervisor.Guest, want host.Server) bool {
	return powerOf(g) == cmp.Or(want.Power, host.On) && g.Lost == "" && g.Build >= want.Build &&
		g.Rescue == want.Rescue &&
		!leavesUpload(g, want) &&
		(keepsInterfaces(want) || slices.EqualFunc(g.Interfaces, want.Interfaces, isInterface))
}

// powerOf returns the power state of a guest.
func powerOf(g hypervisor.Guest) host.Power {
	switch {
	case g.Suspended:
		return host.Suspended
	case g.Stopped:
		return host.Off
	case g.Paused:
		return host.Paused
	}
	return host.On
}

// holds reports whether a guest in this power state continues from where it was.
func holds(p host.Power) bool { return p == host.Paused || p == host.Suspended }

// starts reports whether a guest that does not run is started for this power state.
func starts(p host.Power) bool { return p != host.Off && !holds(p) }

// setPower sets the power state that the assignment requires. A guest that does not run can be neither paused nor
// suspended: it stays stopped.
func setPower(g *hypervisor.Guest, want host.Power, have hypervisor.Guest, there bool) {
	runs := there && !have.Stopped
	g.Paused = want == host.Paused && runs
	g.Suspended = want == host.Suspended && (runs || there && have.Suspended)
	g.Stopped = want == host.Off || holds(want) && !g.Paused
}

// guestReport returns the report of a server in a phase, with its devices and NUMA cells, if any.
func (w *Works) guestReport(a *attempt, phase host.Phase, held []device.Claim) host.Guest {
	_, placed := state.ReadCells(w.State.Cells(a.want.ID))
	if requests, err := state.ReadRequests(a.want.Requests); err == nil {
		held = w.Set.InSets(resource.ConsumerID(a.want.ID), requests, held)
	}
	report := host.Guest{Phase: phase, Devices: state.PickedDevices(held), Cells: host.WritePlaced(placed),
		Build: w.buildOf(a)}
	if phase == host.Stopped || phase == host.Running {
		report.Upload = a.ready.upload
	}
	if g := w.Guests[a.want.ID]; !g.Departed {
		report.Rescue = g.Rescue
		for _, i := range g.Interfaces {
			if i.Port != "" { // otherwise the hypervisor still attaches or detaches it
				report.Ports = append(report.Ports, i.Port)
			}
		}
	}
	return report
}

// buildOf returns the rebuild count of a server's guest: the assigned one, or the guest's when that is higher because
// compute's database was restored.
func (w *Works) buildOf(a *attempt) int {
	built, _ := w.State.Built(a.want.ID)
	return max(a.want.Build, w.Guests[a.want.ID].Build, a.build, built)
}

// refusedError is returned after the hypervisor refused a change and compute has the report. Compute usually then
// assigns the actual state. When it continues to assign the change, as for a guest left behind by a move, the agent
// tries again.
type refusedError struct{ why error }

// Error returns the hypervisor's message.
func (r *refusedError) Error() string { return fault.TextOf(r.why) }

// Unwrap returns the hypervisor's fault.
func (r *refusedError) Unwrap() error { return r.why }

// cancel cancels the attempt on an id and reports whether it is still in progress.
func (w *Works) cancel(id string) (inProgress bool) {
	j := w.byID[id]
	if j == nil || j.attempt == nil {
		return false
	}
	a := j.attempt
	switch {
	case isAwaitReport(a.effect) || w.DropHeld(id):
		a.cancelled = true
		w.end(j, nil)
	case !a.cancelled:
		a.cancelled = true
		w.Do(state.Cancel{Work: id})
	}
	return j.attempt != nil
}

// isInterface reports whether an interface of a guest is the assigned one.
func isInterface(has hypervisor.Interface, want host.Interface) bool {
	return has.Port == want.Port && has.MAC == want.MAC && has.VIF == want.VIF && has.VNIC == want.VNIC &&
		has.Bridge == want.Bridge && has.VLAN == want.VLAN && deviceText(has.Device) == want.Device
}

// keepsInterfaces reports whether a guest that exists keeps its interfaces: compute has yet to bind its ports, or to
// record that the guest has arrived by a live migration.
func keepsInterfaces(want host.Server) bool { return want.ClaimOnly || want.Incoming }

// deviceText returns the address of a device, or an empty text for none.
func deviceText(id device.ID) string {
	if id == (device.ID{}) {
		return ""
	}
	return id.String()
}

// A guest is not built here when the hypervisor did not answer buildTries attempts in buildTime, which is longer than a
// check needs to find that it does not answer at all. Then the attempts do not count.
const (
	buildTries = 5
	buildTime  = 15 * time.Second
)

// mayRetryBuild counts a failed build, and reports whether another attempt is allowed.
func (j *work) mayRetryBuild(now time.Time) bool {
	if j.buildFailures == 0 {
		j.buildFailing = now
	}
	j.buildFailures++
	return j.buildFailures < buildTries || now.Sub(j.buildFailing) < buildTime
}

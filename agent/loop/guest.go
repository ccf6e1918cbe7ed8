package loop

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

const (
	buildTries   = 5               // attempts to build a guest when the hypervisor does not answer
	claimTimeout = 2 * time.Minute // maximum wait of a server for others to free its devices
)

// ensureGuest reconciles a server of the assignments: it claims its devices, builds, changes or migrates its guest,
// and reports the result to compute. A fault means that it must be tried again later.
//
// No guest is built before compute has stored its claim: when a server for which no agent has reported is deleted,
// compute frees everything at once. A Conflict of compute means that the server is no longer assigned here; the next
// assignments show it.
func (a *Agent) ensureGuest(ctx context.Context, want host.Server, j *serverWork) error {
	if err := a.applyRename(ctx, want); err != nil {
		return err
	}
	if message, doomed := a.unreportedFailure(want); doomed {
		return a.failGuest(ctx, want, message)
	}
	a.forgetAck(want.ID)
	switch g, there := a.guest(want.ID); {
	case there && g.Departed && want.Outgoing != nil:
		return a.settle(ctx, want, host.Guest{Phase: host.Departed})
	case there && !g.Departed && matches(g, want):
		return a.continueOrConfirm(ctx, want, j)
	case there && !g.Departed:
		return a.updateGuest(ctx, want, j)
	}
	refusal, err := a.verifyAllocation(ctx, want)
	if err != nil {
		return err
	}
	if refusal != "" {
		return a.failGuest(ctx, want, refusal)
	}
	picked, refusal, err := a.claim(ctx, want, j)
	if err != nil {
		return err
	}
	if refusal != "" {
		return a.failGuest(ctx, want, refusal)
	}
	claimed := a.guestReport(want, host.Claimed, picked)
	if want.Incoming {
		return a.settle(ctx, want, claimed)
	}
	if err := a.reportGuest(ctx, want.ID, claimed); err != nil {
		return err // the claims stay; the next try continues with them
	}
	a.confirmClaim(want, picked)
	switch err := a.build(ctx, want, picked); {
	case err == nil:
		return a.continueOrConfirm(ctx, want, j)
	case ctx.Err() != nil || fault.Is(err, fault.Unavailable) && a.mayRetryBuild(j):
		return err
	default:
		return a.failGuest(ctx, want, "the guest cannot be built: "+fault.TextOf(err))
	}
}

// forgetAck forgets what was reported of a server, because its guest is about to change. If the desired state later
// returns to what it was, compute expects a new report.
func (a *Agent) forgetAck(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.acked, id)
}

// matches reports whether a guest is as its server's assignment requires. A guest with more rebuilds than compute
// records also matches: compute's database may have been restored, and a rebuild replaces the guest's disk.
func matches(g hypervisor.Guest, want host.Server) bool {
	return g.Stopped == (want.Power == host.Off) && g.Build >= want.Build
}

// updateGuest starts, stops or rebuilds a guest with the devices that it has. A guest that cannot be changed stays as
// it is, with its devices. While the hypervisor does not answer, the change is retried; a refusal is reported to
// compute.
func (a *Agent) updateGuest(ctx context.Context, want host.Server, j *serverWork) error {
	a.mu.Lock()
	held := a.set.Held(resource.ConsumerID(want.ID))
	a.mu.Unlock()
	err := a.build(ctx, want, held)
	switch {
	case err == nil:
		return a.continueOrConfirm(ctx, want, j)
	case ctx.Err() != nil || fault.Is(err, fault.Unavailable):
		return err
	}
	return a.reportRefusal(ctx, want, held, err)
}

// reportRefusal reports to compute that the hypervisor refused a change, with the guest's actual state. It returns a
// refusedError, or the fault of the report.
func (a *Agent) reportRefusal(ctx context.Context, want host.Server, held []device.Claim, why error) error {
	guests, err := a.o.Hypervisor.Guests(ctx)
	if err != nil {
		return fault.Wrap("", "hypervisor.Guests", err)
	}
	i := slices.IndexFunc(guests, func(g hypervisor.Guest) bool { return g.ID == want.ID && !g.Departed })
	if i < 0 {
		a.mu.Lock()
		delete(a.guests, want.ID)
		a.mu.Unlock()
		return why // the guest no longer exists: the next try builds it
	}
	a.mu.Lock()
	a.guests[want.ID] = guests[i]
	a.mu.Unlock()
	told := a.guestReport(want, host.Refused, held)
	told.Build, told.Message, told.Power = guests[i].Build, fault.TextOf(why), host.On
	if guests[i].Stopped {
		told.Power = host.Off
	}
	a.log.Warn("guest change refused", "server", want.ID, "error", why)
	if err := a.settle(ctx, want, told); err != nil {
		return err
	}
	return &refusedError{why}
}

// refusedError is returned after the hypervisor refused a change and compute has the report. Compute usually then
// assigns the actual state. When it continues to assign the change, as for a guest left behind by a move, the agent
// tries again.
type refusedError struct{ why error }

// Error returns the hypervisor's message.
func (r *refusedError) Error() string { return fault.TextOf(r.why) }

// Unwrap returns the hypervisor's fault.
func (r *refusedError) Unwrap() error { return r.why }

// continueOrConfirm starts an outgoing migration if one is requested; otherwise it confirms the guest.
func (a *Agent) continueOrConfirm(ctx context.Context, want host.Server, j *serverWork) error {
	if want.Outgoing != nil {
		return a.migrateGuest(ctx, want, j)
	}
	return a.confirm(ctx, want)
}

// guestReport returns the report of a server in a phase, with its devices and NUMA cells, if any.
func (a *Agent) guestReport(want host.Server, phase host.Phase, held []device.Claim) host.Guest {
	_, placed := readCells(a.journal.State().Cells(want.ID))
	return host.Guest{Phase: phase, Devices: pickedDevices(held), Cells: host.WritePlaced(placed), Build: a.buildOf(want)}
}

// buildOf returns the rebuild count of a server's guest: the assigned one, or the guest's when that is higher because
// compute's database was restored.
func (a *Agent) buildOf(want host.Server) int {
	g, _ := a.guest(want.ID)
	return max(want.Build, g.Build)
}

// settle reports the final phase of a server to compute and records it. Nothing more is done for the server until its
// assignment changes.
func (a *Agent) settle(ctx context.Context, want host.Server, g host.Guest) error {
	if err := a.reportGuest(ctx, want.ID, g); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.acked[want.ID] = outcome{want: want, phase: g.Phase}
	a.confirmed[want.ID] = want
	return nil
}

// mayRetryBuild counts a failed build, and reports whether another attempt is allowed.
func (a *Agent) mayRetryBuild(j *serverWork) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	j.buildFailures++
	return j.buildFailures < buildTries
}

// failGuest removes everything of a server that cannot run here, and reports it to compute as failed.
func (a *Agent) failGuest(ctx context.Context, want host.Server, message string) error {
	a.mu.Lock()
	a.unreportedFailures[want.ID] = outcome{want: want, message: message}
	a.mu.Unlock()
	if err := a.release(ctx, want.ID); err != nil {
		return err
	}
	if err := a.reportNow(ctx); err != nil {
		return err
	}
	if err := a.reportGuest(ctx, want.ID, host.Guest{Phase: host.Failed, Message: message}); err != nil {
		return err
	}
	a.log.Warn("server failed", "server", want.ID, "reason", message)
	if err := a.journal.Remove(want.ID); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.unreportedFailures, want.ID)
	a.acked[want.ID] = outcome{want: want, phase: host.Failed}
	return nil
}

// unreportedFailure returns the message of a failure of this assignment that compute has not yet received.
func (a *Agent) unreportedFailure(want host.Server) (message string, doomed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f, found := a.unreportedFailures[want.ID]
	if found && !reflect.DeepEqual(f.want, want) {
		delete(a.unreportedFailures, want.ID) // the assignment has changed
		return "", false
	}
	return f.message, found
}

func (a *Agent) guest(id string) (g hypervisor.Guest, there bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	g, there = a.guests[id]
	return g, there
}

// verifyAllocation reads the server's allocation from Placement and returns why it does not cover the assignment;
// empty when it does. A fault means that Placement could not be read.
func (a *Agent) verifyAllocation(ctx context.Context, want host.Server) (refusal string, err error) {
	held, err := a.o.Placement.Allocation(ctx, resource.ConsumerID(want.ID))
	if err != nil {
		return "", fault.Wrap("", "loop.verify", err)
	}
	a.mu.Lock()
	tree := a.tree
	a.mu.Unlock()
	here := false
	for id := range held.Allocation {
		if _, ours := tree.ByID(id); ours {
			here = true
		}
	}
	if !here {
		return fmt.Sprintf("Placement has no allocation of server %s on %s", want.ID, a.o.Host), nil
	}
	needs := resource.Allocation{}
	for _, r := range want.Requests {
		for _, p := range r.Providers {
			id := resource.ProviderID(p)
			if needs[id] == nil {
				needs[id] = resource.Amounts{}
			}
			needs[id][resource.Class(r.Class)]++
		}
	}
	for _, id := range slices.Sorted(maps.Keys(needs)) {
		for _, class := range needs[id].Sorted() {
			if has := held.Allocation[id][class]; has < needs[id][class] {
				return fmt.Sprintf("server %s is assigned %d %s of provider %s, but its allocation in Placement has %d",
					want.ID, needs[id][class], class, id, has), nil
			}
			if now, other := a.classChanged(id, class); other {
				return fmt.Sprintf("server %s is assigned %s of provider %s, but device_spec has come to say %s",
					want.ID, class, id, now), nil
			}
		}
	}
	return "", nil
}

// classChanged returns the present resource class of a provider's devices when it differs from class. A device held
// with the earlier class would make the host impossible to report.
func (a *Agent) classChanged(id provider.ID, class resource.Class) (now resource.Class, other bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range a.set.Entries() {
		if e.Provider == id && e.Class == class {
			return "", false
		}
		if e.Provider == id {
			now = e.Class
		}
	}
	return now, now != ""
}

// claim selects the server's devices and journals them. Devices held for an earlier assignment are freed first. When
// the devices are still held by servers that are about to leave, it returns a fault: try again later.
func (a *Agent) claim(ctx context.Context, want host.Server, j *serverWork) (picked []device.Claim, refusal string,
	err error) {
	requests, err := readRequests(want.Requests)
	if err != nil {
		return nil, fault.TextOf(err), nil
	}
	picked, refused, err := a.tryClaim(want, requests, j)
	if err == nil && refused != "" && a.holdsDevices(want.ID) {
		if err := a.release(ctx, want.ID); err != nil {
			return nil, "", err
		}
		picked, refused, err = a.tryClaim(want, requests, j)
	}
	return picked, string(refused), err
}

// tryClaim claims all devices and places all NUMA cells of a server, or none. The journal is written before the state
// in memory changes.
func (a *Agent) tryClaim(want host.Server, requests []pci.Request, j *serverWork) ([]device.Claim, device.Refusal,
	error) {
	holder := resource.ConsumerID(want.ID)
	a.mu.Lock()
	defer a.mu.Unlock()
	set, picked, parts, refusal := a.place(want, requests)
	if refusal == "" && len(set.Held(holder)) > len(picked) {
		refusal = "it holds devices that are no longer asked for"
	}
	if refusal != "" {
		return nil, refusal, a.waitForLeaving(refusal, j)
	}
	state := a.journal.State()
	if written, taken := state.Of(want.ID); !taken || !sameClaims(written, picked) ||
		!reflect.DeepEqual(state.Cells(want.ID), parts) {
		if err := a.journal.Put(want.ID, picked, parts...); err != nil {
			return nil, "", err
		}
	}
	if len(picked) > 0 || len(parts) > 0 {
		a.reportChanged()
	}
	a.set = set
	return picked, "", nil
}

// place selects devices and host NUMA nodes for a server. Devices and cells claimed before stay where they are. a.mu
// is held.
func (a *Agent) place(want host.Server, requests []pci.Request) (device.Set, []device.Claim, []journal.GuestCell,
	device.Refusal) {
	parts := host.ReadGuestCells(want.Topology)
	cells, _ := a.usedCells(want.ID)
	var at []numa.Placed
	if was := a.journal.State().Cells(want.ID); sameCells(was, parts) {
		_, at = readCells(was)
	}
	room := numa.Host{Cells: cells, Limits: numa.Limits{CPU: a.o.CPUs.CPURatio, Memory: a.o.CPUs.MemoryRatio},
		Pack: a.o.CPUs.Pack}
	set, picked, placed, refusal := a.set.Place(resource.ConsumerID(want.ID), requests, parts, at, room)
	if refusal != "" {
		return set, nil, nil, refusal
	}
	return set, picked, writeCells(parts, placed), ""
}

// waitForLeaving returns Unavailable when a refused claim should wait for holders that are leaving; nil when there are
// none or the claim has waited for claimTimeout. It must be called under the same lock as the claim, because holders
// may leave at any time. a.mu is held.
func (a *Agent) waitForLeaving(refusal device.Refusal, j *serverWork) error {
	if j.waitingSince.IsZero() {
		j.waitingSince = a.o.Now()
	}
	leaving := a.leavingHolders()
	if len(leaving) == 0 || a.o.Now().Sub(j.waitingSince) >= claimTimeout {
		return nil
	}
	return fault.New(fault.Unavailable, "loop.claim", "%s; waiting for %s to leave", refusal, strings.Join(leaving, ", "))
}

// holdsDevices reports whether the server holds devices.
func (a *Agent) holdsDevices(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.set.Held(resource.ConsumerID(id))) > 0
}

// leavingHolders lists the holders whose devices are about to be freed. a.mu is held.
func (a *Agent) leavingHolders() []string {
	goes := map[string]bool{}
	for _, id := range a.leavingIDs() {
		goes[id] = true
	}
	var list []string
	for _, h := range a.set.Holders() {
		if _, doomed := a.unreportedFailures[string(h)]; doomed || goes[string(h)] || a.formerName(string(h)) {
			list = append(list, string(h))
		}
	}
	return list
}

// build makes the hypervisor build, start, stop or rebuild the guest as assigned.
func (a *Agent) build(ctx context.Context, want host.Server, picked []device.Claim) error {
	g := hypervisor.Guest{ID: want.ID, Server: want.Server, Name: want.Name, VCPUs: want.VCPUs,
		MemoryMB: want.MemoryMB, DiskGB: want.DiskGB,
		Cells: hypervisorCells(a.journal.State().Cells(want.ID)), Stopped: want.Power == host.Off, Build: want.Build}
	for _, c := range picked {
		g.Devices = append(g.Devices, hypervisor.Device{Address: c.Device.Address, Request: c.Request,
			Provider: c.Provider, Unmanaged: c.Managed == pci.No})
	}
	slices.SortFunc(g.Devices, func(a, b hypervisor.Device) int { return a.Address.Compare(b.Address) })
	if err := a.checkDevices(g, picked); err != nil {
		return err
	}
	was, there := a.guest(want.ID)
	g.Build = max(g.Build, was.Build)
	if there && was.Departed { // it was migrated away, and compute assigns it here again
		if err := a.o.Hypervisor.Destroy(ctx, want.ID); err != nil {
			return err
		}
	}
	if err := a.o.Hypervisor.Build(ctx, g); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.guests[g.ID] = g
	a.guestEpoch++
	a.log.Info("guest reconciled", "server", g.ID, "devices", len(g.Devices), "stopped", g.Stopped, "build", g.Build)
	return nil
}

// confirm journals that the guest has its devices, and reports it as running or stopped.
func (a *Agent) confirm(ctx context.Context, want host.Server) error {
	held, err := a.allocate(want)
	if err != nil {
		return err
	}
	phase := host.Running
	if want.Power == host.Off {
		phase = host.Stopped
	}
	return a.settle(ctx, want, a.guestReport(want, phase, held))
}

// allocate changes the server's claims to allocated, in the journal and in the set. When the guest runs, its devices
// for one-time use are marked used.
func (a *Agent) allocate(want host.Server) ([]device.Claim, error) {
	holder := resource.ConsumerID(want.ID)
	a.mu.Lock()
	defer a.mu.Unlock()
	set, changes := a.set.Allocate(holder)
	held := set.Held(holder)
	state := a.journal.State()
	if written, taken := state.Of(want.ID); !taken || !sameClaims(written, held) {
		if err := a.journal.Put(want.ID, held, state.Cells(want.ID)...); err != nil {
			return nil, err
		}
	}
	a.set = set
	if len(changes) > 0 {
		a.reportChanged()
	}
	if want.Power == host.Off {
		return held, nil
	}
	return held, a.markUsed(want.ID)
}

// release destroys the guest, frees its devices and journals that, in this order. It does nothing for a server without
// guest and claims.
func (a *Agent) release(ctx context.Context, id string) error {
	runs, taken, err := a.guestState(id)
	if err != nil || !runs && !taken {
		return err
	}
	if err := a.o.Hypervisor.Destroy(ctx, id); err != nil {
		return fault.Wrap("", "hypervisor.Destroy", err)
	}
	a.mu.Lock()
	delete(a.guests, id)
	a.guestEpoch++
	a.mu.Unlock()
	return a.freeClaims(id)
}

// freeClaims frees the devices of a server that has no guest here, and journals that.
func (a *Agent) freeClaims(id string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	set, changes := a.set.Free(resource.ConsumerID(id))
	if err := a.journal.PutGone(id); err != nil {
		return err
	}
	a.set = set
	delete(a.acked, id)
	if len(changes) > 0 {
		a.reportChanged()
		a.retryNow()
	}
	for _, c := range changes {
		if c.Now == device.Removed {
			signal(a.syncNow) // the device is gone, and its provider can be reduced now
		}
	}
	a.log.Info("server released", "server", id, "devices", len(changes))
	return nil
}

// guestState reports whether a guest exists and whether the journal has it. It first marks the devices for one-time
// use of a running guest as used.
func (a *Agent) guestState(id string) (runs, taken bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	g, runs := a.guests[id]
	if _, taken = a.journal.State().Of(id); runs && !g.Stopped {
		err = a.markUsed(id)
	}
	return runs, taken, err
}

// reportNow returns when compute has a report with the present devices, or has refused it. A fault means that compute
// does not answer.
func (a *Agent) reportNow(ctx context.Context) error {
	a.mu.Lock()
	version := a.version
	a.mu.Unlock()
	err := a.deliver(ctx, version)
	if err != nil && !fault.Is(err, fault.Unavailable) {
		a.log.Warn("host report refused", "error", err)
		return nil // the state of the server can be reported nevertheless
	}
	return err
}

// pickedDevices converts claims to the form of the compute API.
func pickedDevices(claims []device.Claim) []host.Picked {
	var out []host.Picked
	for _, c := range claims {
		out = append(out, host.Picked{RequestID: c.Request, Address: c.Device.Address.String(), Provider: string(c.Provider)})
	}
	return out
}

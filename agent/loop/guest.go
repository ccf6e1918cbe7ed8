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
	buildTries   = 5               // how often a guest is built for a hypervisor that does not answer
	claimTimeout = 2 * time.Minute // how long a server waits for others to give its devices back
)

// raise makes a server be as it shall be here, or tells that it cannot. A fault means: not yet, again later.
//
// No guest is built before compute has taken in its claim: of a server that no agent has spoken for, compute gives everything
// back as soon as it is deleted. Compute's Conflict means that the server is no longer wanted here; the next line will say so.
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
		return err // the claims stay; the next try goes on with them
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

// unsettle forgets what compute was told of a server: it is about to change, and what is wanted may be what was wanted before. Then
// compute waits to hear that it is so again.
func (a *Agent) forgetAck(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.acked, id)
}

// asWanted says whether a guest is as its server shall be. A guest that has been rebuilt more often than compute
// records is not built again as it was: compute's database may be an old one, and building replaces what the guest has
// on its disk.
func matches(g hypervisor.Guest, want host.Server) bool {
	return g.Stopped == (want.Power == host.Off) && g.Build >= want.Build
}

// change starts, stops or rebuilds a guest with the devices that it has. The guest is never given up: what cannot be changed stays as it is,
// with its devices. While the hypervisor does not answer it is tried again and again; what it refuses, compute is told of.
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

// refuse tells compute that the hypervisor will not do with a guest what is wanted, and what the guest does.
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
		return why // it is not there any more: it is built, again
	}
	a.mu.Lock()
	a.guests[want.ID] = guests[i]
	a.mu.Unlock()
	told := a.guestReport(want, host.Refused, held)
	told.Build, told.Message, told.Power = guests[i].Build, fault.TextOf(why), host.On
	if guests[i].Stopped {
		told.Power = host.Off
	}
	a.log.Warn("a guest stays as it is", "server", want.ID, "error", why)
	if err := a.settle(ctx, want, told); err != nil {
		return err
	}
	return &refusedError{why}
}

// refusedError is that the hypervisor has refused what compute wants of a guest, and that compute has read it. Mostly
// compute then wants what is. Of a guest that it must have stopped, such as one left behind by a move, it goes on
// wanting that: the agent tries again.
type refusedError struct{ why error }

// Error returns the hypervisor's sentence.
func (r *refusedError) Error() string { return fault.TextOf(r.why) }

// Unwrap returns the hypervisor's fault.
func (r *refusedError) Unwrap() error { return r.why }

// goOn is what comes when the guest is as it shall be: it goes on a journey, or that is all.
func (a *Agent) continueOrConfirm(ctx context.Context, want host.Server, j *serverWork) error {
	if want.Outgoing != nil {
		return a.migrateGuest(ctx, want, j)
	}
	return a.confirm(ctx, want)
}

// stand is what the agent tells of a server that has its place here. A server without devices and NUMA cells has none to tell.
func (a *Agent) guestReport(want host.Server, phase host.Phase, held []device.Claim) host.Guest {
	_, placed := readCells(a.journal.State().Cells(want.ID))
	return host.Guest{Phase: phase, Devices: pickedDevices(held), Parts: host.WritePlaced(placed), Build: a.buildOf(want)}
}

// buildOf is how often the guest of a server has been rebuilt: what compute wants, or more when compute's database is
// an old one.
func (a *Agent) buildOf(want host.Server) int {
	g, _ := a.guest(want.ID)
	return max(want.Build, g.Build)
}

// end tells compute what became of a server, and that is all there is to do as long as compute wants nothing else.
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

// mayBuildAgain counts a build that failed.
func (a *Agent) mayRetryBuild(j *serverWork) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	j.buildFailures++
	return j.buildFailures < buildTries
}

// giveUp leaves nothing of a server that cannot run here, and tells compute why.
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
	a.log.Warn("a server cannot run here", "server", want.ID, "why", message)
	if err := a.journal.Remove(want.ID); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.unreportedFailures, want.ID)
	a.acked[want.ID] = outcome{want: want, phase: host.Failed}
	return nil
}

// isDoomed says whether it is decided already that this server cannot run here, and only compute has not heard it.
func (a *Agent) unreportedFailure(want host.Server) (message string, doomed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f, found := a.unreportedFailures[want.ID]
	if found && !reflect.DeepEqual(f.want, want) {
		delete(a.unreportedFailures, want.ID) // compute wants something else now
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

// verify asks Placement whether the server holds what its assignment says: the allocation is the claim. The refusal is a
// sentence; a fault means that Placement could not say.
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
				return fmt.Sprintf("server %s is assigned %d %s of provider %s, but its allocation in Placement has %d", want.ID, needs[id][class], class, id, has), nil
			}
			if now, other := a.classChanged(id, class); other {
				return fmt.Sprintf("server %s is assigned %s of provider %s, but device_spec has come to say %s", want.ID, class, id, now), nil
			}
		}
	}
	return "", nil
}

// reclassed says which class the devices of a provider have by now, when that is another one: with one of them held as what it was, the
// agent could not report the host any more.
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

// claim picks the devices and writes them down. What is held for an assignment that is no longer so is given back first. When
// there is nothing to pick because others have not yet left, the answer is a fault: again later.
func (a *Agent) claim(ctx context.Context, want host.Server, j *serverWork) (picked []device.Claim, refusal string, err error) {
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

// tryClaim is all or nothing, on disk before it is true: the devices, and where the guest's NUMA cells lie.
func (a *Agent) tryClaim(want host.Server, requests []pci.Request, j *serverWork) ([]device.Claim, device.Refusal, error) {
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
	if written, taken := state.Of(want.ID); !taken || !sameClaims(written, picked) || !reflect.DeepEqual(state.Cells(want.ID), parts) {
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

// place finds devices for a server, and a place for its NUMA cells. What was claimed before stays where it is. a.mu is held.
func (a *Agent) place(want host.Server, requests []pci.Request) (device.Set, []device.Claim, []journal.GuestCell, device.Refusal) {
	parts := host.ReadParts(want.Topology)
	cells, _ := a.usedCells(want.ID)
	var at []numa.Placed
	if was := a.journal.State().Cells(want.ID); sameCells(was, parts) {
		_, at = readCells(was)
	}
	room := numa.Host{Cells: cells, Limits: numa.Limits{CPU: a.o.CPUs.CPURatio, Memory: a.o.CPUs.MemoryRatio}, Pack: a.o.CPUs.Pack}
	set, picked, placed, refusal := a.set.Place(resource.ConsumerID(want.ID), requests, parts, at, room)
	if refusal != "" {
		return set, nil, nil, refusal
	}
	return set, picked, writeCells(parts, placed), ""
}

// waitFor is the fault that a claim must wait, nil when there is nobody to wait for or it has waited for long. Only under the
// same lock as the claim is it true: a moment later they may have left. a.mu is held.
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

// holds says whether the server has devices.
func (a *Agent) holdsDevices(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.set.Held(resource.ConsumerID(id))) > 0
}

// leaving lists who holds devices and is about to give them back. a.mu is held.
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

// build makes the guest be as it is wanted.
func (a *Agent) build(ctx context.Context, want host.Server, picked []device.Claim) error {
	g := hypervisor.Guest{ID: want.ID, Server: want.Server, Name: want.Name, VCPUs: want.VCPUs, MemoryMB: want.MemoryMB, DiskGB: want.DiskGB,
		Cells: hypervisorCells(a.journal.State().Cells(want.ID)), Stopped: want.Power == host.Off, Build: want.Build}
	for _, c := range picked {
		g.Devices = append(g.Devices, hypervisor.Device{Address: c.Device.Address, Request: c.Request, Provider: c.Provider, Unmanaged: c.Managed == pci.No})
	}
	slices.SortFunc(g.Devices, func(a, b hypervisor.Device) int { return a.Address.Compare(b.Address) })
	if err := a.checkDevices(g, picked); err != nil {
		return err
	}
	was, there := a.guest(want.ID)
	g.Build = max(g.Build, was.Build)
	if there && was.Departed { // it went, and compute wants it here all the same
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
	a.log.Info("the guest is as it shall be", "server", g.ID, "devices", len(g.Devices), "stopped", g.Stopped, "build", g.Build)
	return nil
}

// confirm writes down that the guest is there with its devices, and tells compute.
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

// allocate notes that the guest has what it holds, and if it runs, that it has used it.
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

// release destroys the guest, frees its devices, and writes that down, in this order. What never began needs no end.
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

// freeClaims frees the devices of a server of which nothing exists here, and writes that down.
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
			signal(a.syncNow) // its provider kept it until now
		}
	}
	a.log.Info("nothing of the server is left here", "server", id, "devices", len(changes))
	return nil
}

// stands says whether a guest is there and whether the journal knows of it. Of a guest that ran it notes first that its devices were used.
func (a *Agent) guestState(id string) (runs, taken bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	g, runs := a.guests[id]
	if _, taken = a.journal.State().Of(id); runs && !g.Stopped {
		err = a.markUsed(id)
	}
	return runs, taken, err
}

// reportNow returns when compute knows the devices as they are, or will not hear of them. A fault means that it does not answer.
func (a *Agent) reportNow(ctx context.Context) error {
	a.mu.Lock()
	version := a.version
	a.mu.Unlock()
	err := a.deliver(ctx, version)
	if err != nil && !fault.Is(err, fault.Unavailable) {
		a.log.Warn("compute does not take the report as it is", "error", err)
		return nil // what became of the server can be said all the same
	}
	return err
}

// picks are claims in the words of the contract with compute.
func pickedDevices(claims []device.Claim) []host.Picked {
	var out []host.Picked
	for _, c := range claims {
		out = append(out, host.Picked{RequestID: c.Request, Address: c.Device.Address.String(), Provider: string(c.Provider)})
	}
	return out
}

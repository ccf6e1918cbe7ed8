package loop

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Adoption is what each service records of one guest, and what an agent that adopts the next assignments does with it.
type Adoption struct {
	ID        string
	Name      string
	Guest     string // state in the hypervisor: running, stopped, lost, departed or none
	Journal   string // devices claimed in the agent's journal, "no devices", or none
	Placement string // place of its allocation: here, elsewhere or none
	Compute   string // entry in compute's assignments: assigned, remove or none
	Then      string // what happens to it, as a sentence
}

// AdoptionPlan is what adopting would change.
type AdoptionPlan struct {
	Followed string // cloud and position that the agent follows now; empty for a journal without any
	Next     string // those of compute's assignments
	// Hypervisor is why the hypervisor is not used before it is adopted; empty: it is the one that has the guests.
	Hypervisor string
	Guests     []Adoption
}

// AdoptionPlan reads what the hypervisor, the journal, Placement and compute record of each guest, and returns what
// the agent would do after `berth agent adopt`. It changes nothing, and works whether the agent runs or not.
func (a *Agent) AdoptionPlan(ctx context.Context) (AdoptionPlan, error) {
	defer endIdleSessions(ctx, a)
	state, err := journal.Read(a.o.Dir)
	if err != nil {
		return AdoptionPlan{}, err
	}
	guests, why, err := adoptable(ctx, a)
	if err != nil {
		return AdoptionPlan{}, fault.Wrap("", err)
	}
	line, err := a.firstAssignments(ctx)
	if err != nil {
		return AdoptionPlan{}, err
	}
	id, _ := state.Identity()
	p := state.Position()
	plan := AdoptionPlan{Next: describePosition(line.Cloud, line.Position), Hypervisor: why}
	if id.Cloud != "" {
		plan.Followed = describePosition(id.Cloud, host.Position(p))
	}
	for _, r := range recordsOf(guests, state, line) {
		r.built = r.built && id.Machine == a.o.Machine.ID
		if r.allocation, err = a.whereAllocated(ctx, id.Provider, r.id); err != nil {
			return plan, err
		}
		plan.Guests = append(plan.Guests, r.adoption())
	}
	return plan, nil
}

// adoptable returns the guests as they are listed after the hypervisor is adopted, and why it is not used before.
func adoptable(ctx context.Context, a *Agent) (guests []hypervisor.Guest, why string, err error) {
	if driver, is := a.o.Hypervisor.(hypervisor.Adopter); is {
		return driver.Adoptable(ctx)
	}
	guests, err = a.o.Hypervisor.Guests(ctx)
	return guests, "", err
}

func describePosition(cloud string, p host.Position) string {
	return fmt.Sprintf("cloud %s, start %d of compute, revision %d", cloud, p.Epoch, p.Revision)
}

// firstAssignments returns compute's present assignments without registering as the host's agent.
func (a *Agent) firstAssignments(ctx context.Context) (line host.Assignments, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	enough := errors.New("one line is enough")
	err = a.o.Compute.Watch(ctx, host.WatchRequest{Host: a.o.Host}, func(l host.Assignments) error {
		line = l
		return enough
	})
	if errors.Is(err, enough) {
		err = nil
	}
	return line, err
}

// whereAllocated returns where Placement has the allocation of a consumer: here, elsewhere or none.
func (a *Agent) whereAllocated(ctx context.Context, root provider.ID, id string) (string, error) {
	held, err := a.o.Placement.Allocation(ctx, resource.ConsumerID(id))
	if err != nil || len(held.Allocation) == 0 {
		return "none", err
	}
	tree, err := a.tree().read(ctx, root)
	if err != nil {
		return "", err
	}
	for p := range held.Allocation {
		if _, here := tree.ByID(p); here {
			return "here", nil
		}
	}
	return "elsewhere", nil
}

// record is what is recorded of one guest.
type record struct {
	id         string
	guest      *hypervisor.Guest
	journalled bool
	built      bool     // the journal has that its guest was built here
	devices    []string // of the journal
	want       *host.Server
	remove     bool
	allocation string
}

// recordsOf lists the guests that the hypervisor, the journal or the assignments have, by id.
func recordsOf(guests []hypervisor.Guest, state journal.State, line host.Assignments) []*record {
	all := map[string]*record{}
	of := func(id string) *record {
		if all[id] == nil {
			all[id] = &record{id: id}
		}
		return all[id]
	}
	for _, g := range guests {
		of(g.ID).guest = &g
	}
	for _, id := range state.Servers() {
		of(id).journalled = true
		_, of(id).built = state.Built(id)
		claims, _ := state.Of(id)
		for _, c := range claims {
			of(id).devices = append(of(id).devices, c.ID().String())
		}
	}
	for _, s := range line.Servers {
		of(s.ID).want = &s
	}
	for _, r := range line.Remove {
		of(r.ID).remove = true
	}
	var list []*record
	for _, id := range slices.Sorted(maps.Keys(all)) {
		list = append(list, all[id])
	}
	return list
}

func (r *record) adoption() Adoption {
	out := Adoption{ID: r.id, Guest: "none", Journal: "none", Placement: r.allocation, Compute: "none", Then: r.then()}
	if g := r.guest; g != nil {
		out.Name, out.Guest = g.Name, "running"
		if g.Stopped {
			out.Guest = "stopped"
		}
		if g.Lost != "" {
			out.Guest = "lost"
		}
		if g.Departed {
			out.Guest = "departed"
		}
	}
	if r.journalled {
		if out.Journal = strings.Join(r.devices, ","); out.Journal == "" {
			out.Journal = "no devices"
		}
	}
	switch {
	case r.want != nil:
		out.Name, out.Compute = r.want.Name, "assigned"
	case r.remove:
		out.Compute = "remove"
	}
	return out
}

// then returns, as a sentence, what an agent that follows the assignments does with the guest.
func (r *record) then() string {
	exists := r.guest != nil && !r.guest.Departed
	switch {
	case r.want != nil && exists && r.guest.Build < r.want.Build:
		return "is rebuilt, as a user has asked for"
	case r.want != nil && exists && r.guest.Lost != "":
		return "is made again around its disk, because " + r.guest.Lost
	case r.want != nil && exists && r.guest.Stopped != (r.want.Power == host.Off || r.want.Power == host.Suspended):
		return "is started or stopped, as compute records"
	case r.want != nil && exists:
		return "stays as it is"
	case r.want != nil && !exists && r.built:
		return "is not built as a new one, because it was built here and is missing; rebuild the server for a new disk"
	case r.want != nil && r.allocation != "here":
		return "is not built, because its allocation is not here; compute sets the server to ERROR, or waits while " +
			"another host has its guest"
	case r.want != nil:
		return "is built, unless another host reports its guest"
	case r.remove && r.guest != nil:
		return "is destroyed, because compute records that it was deleted or moved away"
	case r.remove:
		return "is reported gone"
	case r.guest != nil, r.built:
		return "stays as it is, and a condition names it"
	}
	return "its devices are freed: it has no guest, and compute does not assign it"
}

// Adopt makes the host's agent follow the next assignments that it reads, of any cloud and any age, on this machine,
// and use this hypervisor, also if it is not the one that has the guests. On another machine than that of the journal,
// guests that are not here count as not built. Conflict: the agent runs; stop it first.
func (a *Agent) Adopt(ctx context.Context) error {
	j, err := journal.Open(a.o.Dir)
	if err != nil {
		return err
	}
	entries := []journal.Entry{journal.Position{}.Entry()}
	if id, written := j.State().Identity(); written {
		if id.Machine != a.o.Machine.ID {
			if entries, err = forgetMissing(ctx, a, j.State(), entries); err != nil {
				return errors.Join(err, j.Close())
			}
		}
		id.Cloud, id.Machine = "", a.o.Machine.ID
		entries = append([]journal.Entry{id.Entry()}, entries...)
	}
	if err = j.Write(entries...); err == nil {
		if driver, is := a.o.Hypervisor.(hypervisor.Adopter); is {
			err = fault.Wrap("", driver.Adopt(ctx))
		}
	}
	return errors.Join(err, j.Close())
}

// forgetMissing adds entries by which guests of the journal that this machine does not have count as not built: it
// replaces the machine of the journal, and compute may have them built again.
func forgetMissing(ctx context.Context, a *Agent, state journal.State, to []journal.Entry) ([]journal.Entry, error) {
	guests, _, err := adoptable(ctx, a)
	if err != nil {
		return nil, fault.Wrap("", err)
	}
	for _, id := range state.Servers() {
		there := slices.ContainsFunc(guests, func(g hypervisor.Guest) bool { return g.ID == id })
		if _, built := state.Built(id); built && !there {
			to = append(to, journal.Unbuilt(id))
		}
	}
	return to, nil
}

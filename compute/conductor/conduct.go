// Package conductor carries out the steps of servers: it asks Placement, lets the scheduler choose, claims and releases,
// over interfaces that it defines. Package saga drives it.
package conductor

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/runner"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

const (
	firstReports = 15 * time.Second // after the start, agents may still have to report what they have

	candidates = 1000             // how many Placement is asked for at most, Nova's [scheduler] max_placement_results
	claimTries = 5                // how often a claim is written anew because a generation had moved
	purgeEvery = 10 * time.Minute // how often deleted servers are forgotten
	buryEvery  = 10 * time.Second // how often what came to be on dead hosts is looked for
	keepFor    = 24 * time.Hour   // how long a deleted server can be asked about
	keepMost   = 1000             // how many deleted servers are kept at most
)

// Placement is what conduct needs of a Placement service; *placement.Client is one.
type Placement interface {
	Candidates(ctx context.Context, ask resource.Ask) (placement.Candidates, error)
	Allocation(ctx context.Context, consumer resource.ConsumerID) (placement.Held, error)
	PutAllocation(ctx context.Context, consumer resource.ConsumerID, held placement.Held) error
	PutAllocations(ctx context.Context, all map[resource.ConsumerID]placement.Held) error
	DeleteAllocation(ctx context.Context, consumer resource.ConsumerID) error

	ProviderAllocations(ctx context.Context, id provider.ID) (map[resource.ConsumerID]resource.Amounts, error)
	Inventories(ctx context.Context, id provider.ID) (placement.Stock, error)
	Usages(ctx context.Context, id provider.ID) (resource.Amounts, error)
	Reshape(ctx context.Context, r placement.Reshape) error
	PutInventories(ctx context.Context, id provider.ID, generation int, inv map[resource.Class]resource.Inventory) (int, error)
}

// Store is what conduct needs of the database; *store.Store is one. A server that does not exist is fault.NotFound.
type Store interface {
	runner.Records[lifecycle.Server]
	Create(ctx context.Context, servers ...lifecycle.Server) error
	Hosts(ctx context.Context) ([]schedule.Host, error)
	Host(ctx context.Context, name string) (schedule.Host, error)
	Reports(ctx context.Context, roots []provider.ID) (map[provider.ID]schedule.Host, error)
	Purge(ctx context.Context, before time.Time, keep int) error
	ServerOfConsumer(ctx context.Context, consumer string) (string, error)
	IDsOnHost(ctx context.Context, host string) ([]string, error)
	OnHost(ctx context.Context, host string) ([]lifecycle.Server, error)
	ByReservation(ctx context.Context, beginning string) ([]lifecycle.Server, error)
	SetDead(ctx context.Context, host string, dead bool, now time.Time) error
	Dead(ctx context.Context) ([]string, error)
	Forget(ctx context.Context, host string) error
	PutReport(ctx context.Context, host schedule.Host, admit func(known schedule.Host) error) error
	RemovalDone(ctx context.Context, host, consumer string) error
	RemovalHosts(ctx context.Context, server string) ([]string, error)
}

// Lease is the lease of this process on its database; *store.Lease is one.
type Lease interface {
	// Check returns nil while this process may act outside its database, else fault.Unavailable.
	Check() error
	// Bind returns a context that ends with ctx, and with the lease if that ends first. stop releases it.
	Bind(ctx context.Context) (bound context.Context, stop context.CancelFunc)
}

// Conductor runs the lives of servers. The HTTP handlers give it what users and agents say.
type Conductor struct {
	Log  *slog.Logger // where to say what nobody is told otherwise; never nil
	Pack bool         // [compute] packing_host_numa_cells_allocation_strategy

	Providers Providers // for HostForget alone
	Lease     Lease     // nil: no other process can take the database

	burying sync.Mutex // held while servers are told of dead hosts, so that none is told so of one that is so no more

	store     Store
	placement Placement
	runner    *runner.Runner[lifecycle.Server, lifecycle.Event, lifecycle.Step]
	presence  *presence
	started   time.Time // no agent could report to us before
	audits    *auditor

	firstReports time.Duration // how long to wait after the start for hosts to report

	now   func() time.Time
	pause func(ctx context.Context, attempt int) // before a claim is written anew
}

// New makes a conductor. It does nothing by itself before Run.
func New(store Store, placement Placement) *Conductor {
	c := &Conductor{Log: slog.Default(), store: store, placement: placement, presence: newPresence(), audits: newAuditor(), started: time.Now(),
		firstReports: firstReports, now: time.Now, pause: pause}
	c.runner = runner.New(store, runner.Machine[lifecycle.Server, lifecycle.Event, lifecycle.Step]{
		Next:    lifecycle.Next,
		Steps:   lifecycle.Server.Steps,
		Perform: c.perform,
		StepFailed: func(step lifecycle.Step, err error) lifecycle.Event {
			return lifecycle.StepFailed{Step: step, Reason: fault.TextOf(err), Refused: refused(err)}
		},
		Gone: func(err error) bool { return fault.Is(err, fault.NotFound) },
	}, 0)
	return c
}

// pause waits 5 to 15 ms, and as much more with each attempt.
func pause(ctx context.Context, attempt int) {
	const unit = 10 * time.Millisecond
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(attempt) * (unit/2 + rand.N(unit))):
	}
}

// Resume wakes every server that was on its way; Run works on them. Called before Run, it says whether the servers can be read;
// the fault is the database's own.
func (c *Conductor) Resume(ctx context.Context) error {
	return fault.Wrap("", "conductor.Resume", c.runner.Resume(ctx))
}

// Run works until ctx ends, and then returns nil. It resumes by itself when Resume has not been called.
func (c *Conductor) Run(ctx context.Context) error {
	var purging sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer purging.Wait()
	defer cancel()
	purging.Go(func() {
		c.regularly(ctx, purgeEvery, "forget deleted servers", func() error { return c.store.Purge(ctx, c.now().Add(-keepFor), keepMost) })
	})
	purging.Go(func() { c.auditReported(ctx) })
	purging.Go(func() { c.regularly(ctx, buryEvery, "look after dead hosts", func() error { return c.bury(ctx) }) })
	purging.Go(func() { c.openGateAtLast(ctx) })
	return fault.Wrap(fault.Unavailable, "conductor.Run", c.runner.Run(ctx))
}

// openGateAtLast is openGate, again and again until the database answers.
func (c *Conductor) openGateAtLast(ctx context.Context) {
	for attempt := 1; ; attempt++ {
		err := c.openGate(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		c.Log.Warn("cannot read the hosts at compute's start, will retry", "error", err)
		c.pause(ctx, min(attempt, 100))
	}
}

// regularly does something now and from time to time.
func (c *Conductor) regularly(ctx context.Context, every time.Duration, what string, do func() error) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if err := do(); err != nil && ctx.Err() == nil {
			c.Log.Warn("cannot "+what+" now, will try again", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Create begins the lives of servers, of all or of none, and returns them as stored, in BUILD. fault.Conflict when an id is taken.
func (c *Conductor) Create(ctx context.Context, servers ...lifecycle.Server) ([]lifecycle.Server, error) {
	made := make([]lifecycle.Server, len(servers))
	for i, s := range servers {
		made[i], _ = lifecycle.Next(s, lifecycle.Created{}, c.now())
	}
	err := c.store.Create(ctx, made...)
	for i := range made {
		made[i].Revision = 1
		c.runner.Wake(made[i].ID) // with an error too: it may be that only the answer was lost
	}
	if err != nil {
		return nil, err
	}
	return made, nil
}

// Delete begins the end of a server. Asking again is no error; fault.NotFound when there is none or it is deleted already, as users
// see it: that is so at once when an agent that would have to say that the guest is gone does not report.
func (c *Conductor) Delete(ctx context.Context, id string) error {
	server, err := c.store.Read(ctx, id)
	if err != nil {
		return err
	}
	if !server.Ended.IsZero() {
		return fault.New(fault.NotFound, "conductor.Delete", "server %s is deleted already", id)
	}
	silent := false
	for _, stay := range server.Residences() {
		refusal, err := c.silent(ctx, stay.Host)
		if err != nil {
			return err
		}
		silent = silent || refusal == ""
	}
	exists := slices.ContainsFunc(c.presence.guestsOf(server.Host), func(g schedule.Present) bool { return g.ID == id })
	_, err = c.runner.Apply(ctx, id, lifecycle.DeleteRequested{Silent: silent, Exists: exists})
	return err
}

// Late is why what an agent told was not taken: something newer is known from it.
type Late struct {
	Number int64 // of the last that was heard from it
}

// Error says it in a sentence.
func (l *Late) Error() string {
	return fmt.Sprintf("something newer has been heard of this server from this agent, up to number %d; what is still so is to be told again with a larger one", l.Number)
}

// Guest takes in what an agent reports of a guest that it knows by this id: one of the lifecycle.Guest… events, As
// being the id. start is that of the agent's process. A guest that is unknown or no longer on that host is no error:
// the agent learns from its assignments. But the claim of such a one is fault.Conflict: an agent that asks before it
// builds must be refused; so is one while another host has a guest of the server that compute has not placed there, and
// fault.Unavailable before the hosts have reported to this compute. A report that is older than what is known is a
// fault.Conflict because of *Late, and one from another start than the admitted one is fault.Conflict.
func (c *Conductor) Guest(ctx context.Context, id, start string, told lifecycle.Report) error {
	if err := c.serves(ctx, told.Host, told.Instance, start); err != nil {
		return err
	}
	if gone, is := told.Event.(lifecycle.GuestGone); is {
		if err := c.store.RemovalDone(ctx, gone.Host, id); err != nil {
			return err
		}
	}
	var server lifecycle.Server
	owner, err := c.store.ServerOfConsumer(ctx, id)
	if err == nil {
		err = c.refuse(ctx, owner, told.Event)
	}
	if err == nil {
		server, err = c.runner.Apply(ctx, owner, told)
	}
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	if latest := server.Latest(told.Host, told.Instance); told.Number < latest {
		return fault.Wrap(fault.Conflict, "conductor.Guest", &Late{Number: latest})
	}
	if claim, ok := told.Event.(lifecycle.GuestClaimed); ok && (err != nil || !server.Expects(id, claim.Host)) {
		return fault.New(fault.Conflict, "conductor.Guest", "server %s is not, or no longer, assigned to host %s: build nothing, and wait for the next line of assignments",
			id, claim.Host)
	}
	return nil
}

// serves refuses the guest reports of any other start of an agent than the admitted one.
func (c *Conductor) serves(ctx context.Context, host, instance, start string) error {
	const op = "conductor.Guest"
	h, err := c.store.Host(ctx, host)
	switch {
	case fault.Is(err, fault.NotFound):
		return fault.New(fault.Conflict, op, "no agent is admitted for host %s; send the report of the host first", host)
	case err != nil:
		return err
	case h.Instance != instance || h.Start != start:
		return fault.New(fault.Conflict, op, "another agent serves host %s; what instance %s reports of guests is not accepted", host, instance)
	}
	return nil
}

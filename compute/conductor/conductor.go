// Package conductor performs the steps of servers: it requests candidates from Placement, selects a host, and claims
// and releases allocations, over interfaces that it defines. Package runner calls it.
package conductor

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/runner"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

const (
	firstReports = 15 * time.Second // how long after the start compute waits for the reports of agents

	maxCandidates  = 1000             // limit of candidates requested, Nova's [scheduler] max_placement_results
	claimTries     = 5                // how often a claim is retried because a generation has changed
	purgeEvery     = 10 * time.Minute // how often deleted servers are purged
	deadHostsEvery = 10 * time.Second // how often servers on dead hosts are reconciled
	keepFor        = 24 * time.Hour   // how long the record of a deleted server is kept
	maxKept        = 1000             // how many deleted servers are kept at most
)

// Placement is what the conductor needs of a Placement service; *placement.Client implements it.
type Placement interface {
	Candidates(ctx context.Context, ask resource.Ask) (placement.Candidates, error)
	Allocation(ctx context.Context, consumer resource.ConsumerID) (placement.ConsumerAllocation, error)
	PutAllocation(ctx context.Context, consumer resource.ConsumerID, held placement.ConsumerAllocation) error
	PutAllocations(ctx context.Context, all map[resource.ConsumerID]placement.ConsumerAllocation) error
	DeleteAllocation(ctx context.Context, consumer resource.ConsumerID) error

	ProviderAllocations(ctx context.Context, id provider.ID) (map[resource.ConsumerID]resource.Amounts, error)
	Inventories(ctx context.Context, id provider.ID) (placement.InventorySet, error)
	Usages(ctx context.Context, id provider.ID) (resource.Amounts, error)
	Reshape(ctx context.Context, r placement.Reshape) error
	PutInventories(ctx context.Context, id provider.ID, generation int,
		inv map[resource.Class]resource.Inventory) (int, error)
}

// Store is what the conductor needs of the database; *store.Store implements it. Methods return fault.NotFound for a
// server that does not exist.
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
	// Bind returns a context that ends when ctx or the lease ends. stop releases it.
	Bind(ctx context.Context) (bound context.Context, stop context.CancelFunc)
}

// Conductor runs the life cycles of servers. The HTTP handlers pass it the requests of users and the reports of agents.
type Conductor struct {
	Log  *slog.Logger // never nil
	Pack bool         // [compute] packing_host_numa_cells_allocation_strategy

	Aliases        pci.Aliases // [pci] alias
	PCIInPlacement bool        // [filter_scheduler] pci_in_placement

	Providers Providers // used only by HostForget
	Lease     Lease     // nil: no other process can take the database

	deadHosts sync.Mutex // held while HostDead events are applied, so that none is applied after HostUp

	store     Store
	placement Placement
	runner    *runner.Runner[lifecycle.Server, lifecycle.Event, lifecycle.Step]
	presence  *presence
	started   time.Time // of this process
	audits    *auditor

	firstReports time.Duration // how long to wait after the start for hosts to report

	now   func() time.Time
	newID func() string                                          // returns UUIDs, for requests
	build func(s lifecycle.Server) (lifecycle.Prepared, error)   // builds the request to Placement
	pause func(ctx context.Context, attempt int)                 // before a claim is retried
	wait  func(ctx context.Context, until <-chan struct{}) error // until the channel is closed
}

// New returns a conductor. It starts nothing; Run does.
func New(store Store, placement Placement) *Conductor {
	c := &Conductor{Log: slog.Default(), store: store, placement: placement, presence: newPresence(),
		audits: newAuditor(), started: time.Now(), firstReports: firstReports, now: time.Now, pause: pause, wait: wait}
	c.newID, c.build = uuid.NewString, c.buildAsk
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

// pause waits 5 to 15 ms times the number of the attempt, or until ctx ends.
func pause(ctx context.Context, attempt int) {
	// The next call fails if ctx has ended.
	_ = backoff.Sleep(ctx, backoff.Around(time.Duration(attempt)*10*time.Millisecond))
}

// wait waits until the channel is closed, or until ctx ends; then it returns the error of ctx.
func wait(ctx context.Context, until <-chan struct{}) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-until:
		return nil
	}
}

// Resume queues every server that has steps to perform; Run performs them. It returns the fault of the database if the
// servers cannot be read.
func (c *Conductor) Resume(ctx context.Context) error {
	return fault.Wrap("", "conductor.Resume", c.runner.Resume(ctx))
}

// Run performs steps until ctx ends, and then returns nil. It calls Resume if Resume has not been called.
func (c *Conductor) Run(ctx context.Context) error {
	var background sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer background.Wait()
	defer cancel()
	background.Go(func() {
		c.runEvery(ctx, purgeEvery, "purge deleted servers", func() error {
			return c.store.Purge(ctx, c.now().Add(-keepFor), maxKept)
		})
	})
	background.Go(func() { c.auditReported(ctx) })
	background.Go(func() {
		c.runEvery(ctx, deadHostsEvery, "reconcile dead hosts", func() error { return c.ReconcileDeadHosts(ctx) })
	})
	background.Go(func() { c.openGateWithRetry(ctx) })
	return fault.Wrap(fault.Unavailable, "conductor.Run", c.runner.Run(ctx))
}

// openGateWithRetry calls openGate until the database answers or ctx ends.
func (c *Conductor) openGateWithRetry(ctx context.Context) {
	for attempt := 1; ; attempt++ {
		err := c.openGate(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		c.Log.Warn("hosts not read at compute's start, will retry", "error", err)
		c.pause(ctx, min(attempt, 100))
	}
}

// runEvery calls do at once and then at each interval until ctx ends. It logs the errors of do.
func (c *Conductor) runEvery(ctx context.Context, every time.Duration, what string, do func() error) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if err := do(); err != nil && ctx.Err() == nil {
			c.Log.Warn("periodic task failed, will retry", "task", what, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Create records all servers or none, and returns them as stored, in BUILD. It returns fault.Conflict if an id is
// taken.
func (c *Conductor) Create(ctx context.Context, servers ...lifecycle.Server) ([]lifecycle.Server, error) {
	made := make([]lifecycle.Server, len(servers))
	for i, s := range servers {
		made[i], _ = lifecycle.Next(s, lifecycle.Created{}, c.now())
	}
	c.presence.created(made)
	err := c.store.Create(ctx, made...)
	for i := range made {
		made[i].Revision = 1
		c.runner.Wake(made[i].ID) // also after an error, because only the answer may have been lost
	}
	if err != nil {
		return nil, err
	}
	return made, nil
}

// Delete starts the deletion of a server. A second request is not an error. It returns fault.NotFound if the server
// does not exist or is shown as deleted. A server is shown as deleted at once if the agent that must destroy its guest
// does not report.
func (c *Conductor) Delete(ctx context.Context, id string) error {
	server, err := c.store.Read(ctx, id)
	if err != nil {
		return err
	}
	if !server.Ended.IsZero() {
		return fault.New(fault.NotFound, "conductor.Delete", "server %s is deleted already", id)
	}
	silent := false
	for _, residence := range server.Residences() {
		alive, err := c.whyAlive(ctx, residence.Host)
		if err != nil {
			return err
		}
		silent = silent || alive == ""
	}
	exists := slices.ContainsFunc(c.presence.guestsOf(server.Host), func(g schedule.Present) bool { return g.ID == id })
	_, err = c.runner.Apply(ctx, id, lifecycle.DeleteRequested{Silent: silent, Exists: exists})
	return err
}

// Late is the cause of the fault when a report of a guest is older than the last one from the same agent.
type Late struct {
	Number int64 // of the last report that was received from the agent
}

// Error returns the sentence.
func (l *Late) Error() string {
	return fmt.Sprintf("report not recorded: this agent has sent a newer report of the server, number %d; "+
		"report the present state with a larger number", l.Number)
}

// Guest records what an agent reports of a guest: one of the lifecycle.Guest… events, whose Consumer is id. start is
// the start of the agent's process.
//
// A report of a guest that is unknown, or no longer on the host, is not an error: the agent learns that from its
// assignments. But a claim of such a guest is fault.Conflict, because the agent must not build it. A claim is also
// fault.Conflict while another host has a guest of the server that compute has not placed there, and fault.Unavailable
// before the hosts have reported to this process. A report that is older than the last one is fault.Conflict because of
// *Late. A report from another start than the admitted one is fault.Conflict.
func (c *Conductor) Guest(ctx context.Context, id, start string, report lifecycle.Report) error {
	if err := c.checkAdmitted(ctx, report.Host, report.Instance, start); err != nil {
		return err
	}
	if gone, is := report.Event.(lifecycle.GuestGone); is {
		if err := c.store.RemovalDone(ctx, gone.Host, id); err != nil {
			return err
		}
	}
	var server lifecycle.Server
	owner, err := c.store.ServerOfConsumer(ctx, id)
	if err == nil {
		err = c.checkGuestReport(ctx, owner, report.Event)
	}
	if err == nil {
		server, err = c.runner.Apply(ctx, owner, report)
	}
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	if latest := server.Latest(report.Host, report.Instance); report.Number < latest {
		return fault.Wrap(fault.Conflict, "conductor.Guest", &Late{Number: latest})
	}
	if claim, ok := report.Event.(lifecycle.GuestClaimed); ok && (err != nil || !server.Expects(id, claim.Host)) {
		return fault.New(fault.Conflict, "conductor.Guest", "server %s is not, or no longer, assigned to host %s; "+
			"build nothing, and wait for the next line of assignments", id, claim.Host)
	}
	return nil
}

// checkAdmitted returns fault.Conflict unless start is the admitted start of the agent of a host.
func (c *Conductor) checkAdmitted(ctx context.Context, host, instance, start string) error {
	const op = "conductor.Guest"
	h, err := c.store.Host(ctx, host)
	switch {
	case fault.Is(err, fault.NotFound):
		return fault.New(fault.Conflict, op, "no agent is admitted for host %s; send the report of the host first", host)
	case err != nil:
		return err
	case h.Instance != instance || h.Start != start:
		return fault.New(fault.Conflict, op,
			"another agent serves host %s; what instance %s reports of guests is not accepted", host, instance)
	}
	return nil
}

package conductor

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/placement/placementtest"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const class = resource.Class("CUSTOM_NIC")

// cloud is a test environment: a store and a Placement that outlive each conductor, agents, and one conductor after
// the other.
type cloud struct {
	t         *testing.T
	store     *store.Store
	placement *placementtest.Placement
	agents    *agents
	images    *imageService
	disks     string // schedule.Host.DiskImages of the hosts

	onWait        func()      // called while a test waits: restarts a crashed conductor
	changed       atomic.Bool // the test has changed Placement itself
	noReports     bool        // no host reports to a compute that starts
	withoutImages bool        // compute has no image service
	longRunning   bool        // each compute runs for an hour already: agents that do not report are silent

	spentMu sync.Mutex
	spent   map[provider.ID]int // providers of spent devices, and how many they have

	mu   sync.Mutex
	now  *Conductor
	stop func() // ends the present compute and waits for its end
}

// newCloud returns a cloud with hosts, by name, with this number of devices. Each agent has reported.
func newCloud(t *testing.T, devices map[string]int) *cloud {
	t.Helper()
	db, err := sqldb.Open(t.Context(), "sqlite://")
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	c := &cloud{t: t, store: s, placement: placementtest.New(nil), spent: map[provider.ID]int{}, stop: func() {},
		onWait: func() {}}
	c.images = &imageService{all: map[string]image.Image{}}
	c.agents = &agents{store: s, images: c.images, conductor: c.conductor, devices: map[string][]string{},
		guests: map[string]map[string]*guest{},
		paused: map[string]bool{}, pending: map[string][]func(*Conductor) error{}, broken: map[string]bool{},
		removed: map[string]bool{}}
	c.placement.RefuseOverCapacity()
	for host, n := range devices {
		c.addHost(host, n)
		c.agents.guests[host] = map[string]*guest{}
		for i := range n {
			c.agents.devices[host] = append(c.agents.devices[host], pci.Address{Bus: 0x3b, Slot: uint8(i)}.String())
		}
		c.report(host)
	}
	quit, looking := make(chan struct{}), sync.WaitGroup{}
	looking.Go(func() {
		for {
			select {
			case <-quit:
				return
			case <-time.After(2 * time.Millisecond):
				c.agents.reconcile(t)
			}
		}
	})
	hosts := slices.Sorted(maps.Keys(devices))
	looking.Go(func() { c.auditing(hosts, quit) })
	t.Cleanup(func() {
		close(quit)
		looking.Wait()
		c.stop()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// auditing audits all hosts repeatedly. An audit must find nothing, unless the test has changed Placement itself.
func (c *cloud) auditing(hosts []string, quit <-chan struct{}) {
	for {
		select {
		case <-quit:
			return
		case <-time.After(5 * time.Millisecond):
		}
		conductor := c.conductor()
		for _, host := range hosts {
			if conductor == nil || c.changed.Load() {
				continue
			}
			found, err := conductor.Audits.HostAudit(context.Background(), host)
			if err == nil && !c.changed.Load() && len(found.Missing)+len(found.Foreign) > 0 {
				c.t.Errorf("an audit of %s finds %+v\n%s", host, found, c.histories())
			}
		}
	}
}

// report stores a report of the agent of a host.
func (c *cloud) report(host string) {
	c.t.Helper()
	c.reportAt(host, time.Now())
}

func (c *cloud) reportAt(host string, at time.Time) {
	report := schedule.Host{Name: host, Instance: "agent-" + host, Start: "start", Provider: provider.ID("root-" + host),
		InPlacement: true, Seen: at, Disks: schedule.Disks{DiskImages: c.disks}}
	for _, text := range c.agents.devices[host] {
		address, err := pci.ParseAddress(text)
		if err != nil {
			c.t.Fatal(err)
		}
		report.Devices = append(report.Devices, pci.Offered{Device: pci.Device{Address: address, Type: pci.Virtual},
			ResourceClass: class, Provider: of(host, text), State: pci.Available, LiveMigratable: pci.Yes})
	}
	c.put(report)
}

// put stores a report, and passes a recent one to the present conductor.
func (c *cloud) put(h schedule.Host) {
	c.t.Helper()
	if err := c.store.PutReport(c.t.Context(), h, func(schedule.Host) error { return nil }); err != nil {
		c.t.Fatal(err)
	}
	if now := c.conductor(); now != nil && time.Since(h.Seen) < schedule.Silence {
		now.Agents.Reported(h)
	}
}

func (c *cloud) conductor() *Conductor {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// keepAsks makes a conductor use the request that a test has given to a new server.
func keepAsks(c *Conductor) {
	c.steps.build = func(s lifecycle.Server) (lifecycle.Prepared, error) {
		if s.Move == nil && len(s.Ask.Groups) > 0 {
			return lifecycle.Prepared{Ask: s.Ask, Requests: s.Requests, Topology: s.Topology}, nil
		}
		return c.Scheduler.Build(s)
	}
}

// quiet returns a configuration with the aliases of the tests and without a log.
func quiet(t *testing.T) Config {
	t.Helper()
	return Config{Options: Options{Log: slog.New(slog.DiscardHandler), Aliases: aliases(t), PCIInPlacement: true}}
}

// start starts a conductor on these views of the store and of Placement. stop or the context ends it.
func (c *cloud) start(ctx context.Context, s Store, p Placement) {
	ctx, cancel := context.WithCancel(ctx)
	config := quiet(c.t)
	config.Providers = c.placement
	if !c.withoutImages {
		config.Images = c.images
	}
	if troubled, is := s.(troubledStore); is {
		config.Images = troubledImages{c.images, troubled.trouble}
	}
	if c.longRunning {
		began := time.Now().Add(-time.Hour)
		config.Since = func() time.Duration { return time.Since(began) }
	}
	conductor := New(s, p, config)
	keepAsks(conductor)
	conductor.runner.Retry.First = 4 * time.Millisecond
	if c.longRunning {
		conductor.firstReports = time.Millisecond // it has waited for them long ago
	}
	hosts, err := c.store.Hosts(ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, h := range hosts {
		if time.Since(h.Seen) < schedule.Silence && !c.noReports {
			conductor.Agents.Reported(h)
		}
	}
	var ended sync.WaitGroup
	ended.Go(func() {
		if err := conductor.Run(ctx); err != nil && ctx.Err() == nil {
			c.t.Errorf("Run: %v", err)
		}
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now, c.stop = conductor, func() { cancel(); ended.Wait() }
}

// restart stops the conductor and starts another one. No agent's report is in progress meanwhile: a stopped process
// could store it after the next one has read what remains to be done, which the lease of a real process prevents.
func (c *cloud) restart() {
	c.agents.mu.Lock()
	defer c.agents.mu.Unlock()
	c.stop()
	c.start(c.t.Context(), c.store, c.client(nil))
}

// aliases are the aliases of flavors.
func aliases(t *testing.T) pci.Aliases {
	t.Helper()
	as, err := pci.ParseAliases(true, `{"name": "nic", "resource_class": "CUSTOM_NIC", "live_migratable": "yes"}`)
	if err != nil {
		t.Fatal(err)
	}
	return as
}

// server asks for a CPU and one device.
func server(id string) lifecycle.Server {
	r := pci.Request{ID: "R-" + id, Alias: "nic", Count: 1, Requirement: pci.Requirement{Class: class}}
	return lifecycle.Server{ID: id, Name: id, Project: "p", User: "u", Requests: []pci.Request{r},
		Ask: resource.Ask{Groups: []resource.Group{{Suffix: r.GroupSuffix(0), Resources: resource.Amounts{class: 1}},
			{Resources: resource.Amounts{"VCPU": 1}}}}}
}

// servers reads all, deleted ones too.
func (c *cloud) servers() []lifecycle.Server {
	c.t.Helper()
	alive, err := c.store.Servers(context.Background(), store.ServerFilter{})
	if err != nil {
		c.t.Fatal(err)
	}
	dead, err := c.store.Servers(context.Background(), store.ServerFilter{Deleted: true})
	if err != nil {
		c.t.Fatal(err)
	}
	return append(alive, dead...)
}

// settled waits until no server is on its way.
func (c *cloud) waitSettled() {
	c.t.Helper()
	c.waitFor("every server settles", func() bool { return !slices.ContainsFunc(c.servers(), unsettled) })
}

// unsettled reports whether a server has a task, leftovers or a state that is not final.
func unsettled(s lifecycle.Server) bool {
	rest := []lifecycle.State{lifecycle.Active, lifecycle.Shelved, lifecycle.Error, lifecycle.Deleted}
	return !slices.Contains(rest, s.State) && s.Phase() != lifecycle.Resized || s.TaskState() != "" || len(s.Leftovers) > 0
}

func (c *cloud) waitFor(what string, holds func() bool) {
	c.t.Helper()
	held, _ := testenv.Wait(func() bool {
		if holds() {
			return true
		}
		c.onWait()
		return false
	})
	if !held {
		c.t.Fatalf("never: %s\n%s", what, c.histories())
	}
}

// histories returns the histories of all servers as text, for messages.
func (c *cloud) histories() string {
	out := ""
	for _, s := range c.servers() {
		out += fmt.Sprintf("%s %s\n", s.ID, s.Stage())
		for _, m := range s.History {
			out += fmt.Sprintf("   %s ×%d\n", m.Text, m.Times)
		}
	}
	return out
}

// count returns how many servers are in a state.
func (c *cloud) count(state lifecycle.State) int {
	n := 0
	for _, s := range c.servers() {
		if s.State == state {
			n++
		}
	}
	return n
}

func choices(allocation resource.Allocation) []schedule.Choice {
	return []schedule.Choice{{Host: "b", Root: "root-b", Allocation: allocation}}
}

// clocks are the two clocks of a conductor: the monotonic one, and the wall clock, which can be set.
type clocks struct{ since, wall time.Duration }

// withClocks returns a conductor that does not run, and its clocks.
func withClocks(t *testing.T, c *cloud) (*Conductor, *clocks) {
	t.Helper()
	at, began, config := &clocks{}, time.Now(), quiet(t)
	config.Providers, config.Images = c.placement, c.images
	config.Since = func() time.Duration { return at.since }
	config.Now = func() time.Time { return began.Add(at.since + at.wall) }
	return New(c.store, c.client(nil), config), at
}

func (c *cloud) create(ids ...string) {
	c.t.Helper()
	for _, id := range ids {
		if _, err := c.conductor().Create(context.Background(), server(id)); err != nil {
			c.t.Fatal(err)
		}
	}
}

// deleteAll deletes what is not deleted and waits until nothing is left.
func (c *cloud) deleteAll() {
	c.t.Helper()
	for _, s := range c.servers() {
		c.waitFor("the deletion of "+s.ID+" is recorded", func() bool {
			err := c.conductor().Delete(context.Background(), s.ID, lifecycle.Caller{})
			return err == nil || fault.Is(err, fault.NotFound)
		})
	}
	c.waitSettled()
	if n := c.count(lifecycle.Deleted); n != len(c.servers()) {
		c.t.Errorf("%d of %d are deleted", n, len(c.servers()))
	}
	c.checkConsistent("after deleting all")
}

// describe changes the report of every host.
func (c *cloud) describe(how func(*schedule.Host)) {
	c.t.Helper()
	for name := range c.agents.devices {
		h, err := c.store.Host(c.t.Context(), name)
		if err != nil {
			c.t.Fatal(err)
		}
		h.Devices = slices.Clone(h.Devices) // those of the store are shared
		how(&h)
		c.put(h)
	}
}

// make creates the server s, waits until its state is final, and returns it.
func (c *cloud) make(s lifecycle.Server) lifecycle.Server {
	c.t.Helper()
	if _, err := c.conductor().Create(c.t.Context(), s); err != nil {
		c.t.Fatal(err)
	}
	c.waitSettled()
	return c.server()
}

// act requests an action until it is recorded. A refusal ends the test.
func (c *cloud) act(request lifecycle.ActionRequested) {
	c.t.Helper()
	c.waitFor(string(request.Action)+" is recorded", func() bool {
		_, err := c.conductor().Act(context.Background(), "s", request)
		if err == nil {
			return true
		}
		s, lost := c.store.Read(context.Background(), "s")
		if lost == nil && s.LastAction == request.ID {
			return true // only the answer was lost
		}
		if fault.Is(err, fault.Conflict) && s.TaskState() == "" {
			c.t.Fatalf("%s is refused: %v\n%s", request.Action, err, c.histories())
		}
		return false
	})
}

// deleteServer requests the deletion of the server until it is recorded.
func (c *cloud) deleteServer() {
	c.t.Helper()
	c.waitFor("delete is recorded", func() bool {
		err := c.conductor().Delete(context.Background(), "s", lifecycle.Caller{})
		return err == nil || fault.Is(err, fault.NotFound)
	})
}

// server returns the server s.
func (c *cloud) server() lifecycle.Server {
	c.t.Helper()
	s, err := c.store.Read(context.Background(), "s")
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

// settle waits until the server has reached a final state and checks that it is this one.
func (c *cloud) settle(state lifecycle.State) {
	c.t.Helper()
	c.waitSettled()
	if s := c.server(); s.State != state {
		c.t.Fatalf("the server is %s, not %s\n%s", s.State, state, c.histories())
	}
	c.waitFor("the agents have reported", c.agentsDone)
	c.checkConsistent(string(state))
}

// settlePhase waits until a move awaits a user in this phase.
func (c *cloud) settlePhase(phase lifecycle.MovePhase) {
	c.t.Helper()
	c.settle(lifecycle.Moving)
	if got := c.server().Phase(); got != phase {
		c.t.Fatalf("the move is %s, not %s\n%s", got, phase, c.histories())
	}
}

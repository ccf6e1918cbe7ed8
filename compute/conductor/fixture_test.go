package conductor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/openberth/berth/api/placement/placementtest"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const class = resource.Class("CUSTOM_NIC")

// agents are the agents of all hosts, with one journal. They outlive each conductor, repeat their reports until they
// are accepted, and build, move or fail as the test sets.
type agents struct {
	store     *store.Store // to read the assignments, as the watch would
	conductor func() *Conductor
	fails     func(host string) string // why guests cannot be built there, or nothing
	stuck     func(host string) string // why guests cannot leave it by live migration, or nothing

	mu      sync.Mutex
	devices map[string][]string // addresses of each host
	guests  map[string]map[string]*guest
	pending map[string][]func(*Conductor) error
	broken  map[string]bool // by host and consumer: failed here
	paused  map[string]bool // hosts whose agents do nothing
	removed map[string]bool // by host and consumer: the removal has been reported and compute still names it
	number  int64           // of the last guest report of any of them
}

// guest is what an agent's journal and hypervisor have of one consumer.
type guest struct {
	devices   []schedule.Picked
	build     int
	runs      bool
	confirmed bool   // compute has confirmed its claim
	reported  string // the phase that was reported last
}

// reconcile makes the guests of each host agree with its assignments, once.
func (a *agents) reconcile(t *testing.T) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for host := range a.devices {
		if a.paused[host] {
			continue
		}
		now, err := a.store.Assignments(context.Background(), host)
		if err != nil {
			t.Errorf("assignments of %s: %v", host, err)
			return
		}
		a.rename(host, now.Entries)
		wanted := map[string]bool{}
		for _, e := range now.Entries {
			wanted[e.Consumer] = true
		}
		a.remove(t, host, wanted, now.Removals)
		for key := range a.broken {
			if strings.HasPrefix(key, host+" ") && !wanted[strings.TrimPrefix(key, host+" ")] {
				delete(a.broken, key)
			}
		}
		for _, e := range now.Entries {
			a.build(t, host, e)
		}
	}
	a.deliver()
}

// remove destroys the guests that are named for removal, and no other. What was claimed and never built is dropped when
// it is not mentioned.
func (a *agents) remove(t *testing.T, host string, wanted map[string]bool, removals []lifecycle.Removal) {
	named := map[string]bool{}
	for _, r := range removals {
		for _, id := range []string{r.Consumer, r.PreviousConsumer} {
			named[id] = true
			if !wanted[id] {
				delete(a.guests[host], id)
			}
		}
		if key := host + " " + r.Consumer; !a.removed[key] {
			a.queue(host, r.Consumer, lifecycle.GuestGone{Host: host, Consumer: r.Consumer})
			a.removed[key] = true
		}
	}
	for key := range a.removed {
		if at, id, _ := strings.Cut(key, " "); at == host && !named[id] {
			delete(a.removed, key)
		}
	}
	for id, g := range a.guests[host] {
		switch {
		case wanted[id] || named[id]:
		case !g.confirmed:
			delete(a.guests[host], id)
			a.queue(host, id, lifecycle.GuestGone{Host: host, Consumer: id})
		default:
			t.Errorf("the guest %s on %s is neither assigned nor named for removal", id, host)
			delete(a.guests[host], id)
		}
	}
}

// rename gives guests the ids that they have in the assignments.
func (a *agents) rename(host string, entries []store.Entry) {
	for _, e := range entries {
		if was := a.guests[host][e.PreviousConsumer]; e.PreviousConsumer != "" && was != nil &&
			a.guests[host][e.Consumer] == nil {
			delete(a.guests[host], e.PreviousConsumer)
			a.guests[host][e.Consumer] = was
			was.reported, was.confirmed = "", true
		}
	}
}

// build makes one guest agree with its entry.
func (a *agents) build(t *testing.T, host string, e store.Entry) {
	id := e.Consumer
	g := a.guests[host][id]
	switch {
	case a.broken[host+" "+id]:
		return
	case g == nil && a.fails != nil && a.fails(host) != "":
		a.broken[host+" "+id] = true
		a.queue(host, id, lifecycle.GuestFailed{Host: host, Consumer: id, Message: a.fails(host)})
		return
	case g == nil:
		picked, ok := a.pick(host, e.Requests)
		if !ok {
			t.Errorf("%s was given %s, and has no device for it", host, id)
			a.broken[host+" "+id] = true
			return
		}
		g = &guest{devices: picked}
		a.guests[host][id] = g // the journal comes first
	}
	if !g.confirmed && a.guest(a.conductor(), host, id, a.next(), lifecycle.GuestClaimed{Host: host, Consumer: id,
		Devices: g.devices, Build: e.Server.Builds}) != nil {
		return // a guest is built only after its claim is confirmed
	}
	g.confirmed = true
	if e.Incoming {
		return
	}
	if e.Outgoing != "" {
		a.send(host, id, e, g)
		return
	}
	g.build, g.runs = e.Server.Builds, e.Power == lifecycle.On
	phase := fmt.Sprint(g.runs, g.build)
	if g.reported == phase {
		return
	}
	g.reported = phase
	if g.runs {
		a.queue(host, id, lifecycle.GuestRunning{Host: host, Consumer: id, Devices: g.devices, Build: g.build})
	} else {
		a.queue(host, id, lifecycle.GuestStopped{Host: host, Consumer: id, Devices: g.devices, Build: g.build})
	}
}

// send migrates a guest live: it no longer runs on this host.
func (a *agents) send(host, id string, e store.Entry, g *guest) {
	switch {
	case g.reported == "outgoing":
	case a.stuck != nil && a.stuck(host) != "":
		g.reported = "outgoing"
		a.queue(host, id, lifecycle.GuestFailed{Host: host, Consumer: id, Message: a.stuck(host)})
	default:
		if len(e.DeviceMap) != len(g.devices) {
			panic(fmt.Sprintf("%d devices are to become %v", len(g.devices), e.DeviceMap))
		}
		g.reported, g.runs = "outgoing", false
		a.queue(host, id, lifecycle.GuestMigrated{Host: host, Consumer: id})
	}
}

// pick takes free devices of the chosen providers.
func (a *agents) pick(host string, requests []pci.Request) ([]schedule.Picked, bool) {
	held := map[string]bool{}
	for _, g := range a.guests[host] {
		for _, d := range g.devices {
			held[d.Address] = true
		}
	}
	var picked []schedule.Picked
	for _, r := range requests {
		for i := range r.Count {
			at := slices.IndexFunc(a.devices[host], func(address string) bool {
				return !held[address] && (i >= len(r.Providers) || r.Providers[i] == of(host, address))
			})
			if at < 0 {
				return nil, false
			}
			address := a.devices[host][at]
			held[address] = true
			picked = append(picked, schedule.Picked{RequestID: r.ID, Address: address, Provider: of(host, address)})
		}
	}
	return picked, true
}

// of is the provider of a device: those of bus 3c are of the second provider of the host.
func of(host, address string) provider.ID {
	if strings.HasPrefix(address, "0000:3c") {
		return provider.ID("qf-" + host)
	}
	return provider.ID("pf-" + host)
}

func (a *agents) queue(host, id string, e lifecycle.Event) {
	number := a.next()
	a.pending[host] = append(a.pending[host], func(c *Conductor) error {
		err := a.guest(c, host, id, number, e)
		if _, late := errors.AsType[*Late](err); late {
			return nil // something newer is known already
		}
		return err
	})
}

func (a *agents) next() int64 {
	a.number++
	return a.number
}

func (a *agents) guest(c *Conductor, host, id string, number int64, e lifecycle.Event) error {
	return c.Guest(context.Background(), id, "start", lifecycle.Report{Host: host, Instance: "agent-" + host,
		Number: number, Event: e})
}

// deliver sends the pending reports of each host in order, until one fails.
func (a *agents) deliver() {
	for host, list := range a.pending {
		for len(list) > 0 && list[0](a.conductor()) == nil {
			list = list[1:]
		}
		a.pending[host] = list
	}
}

// cloud is a test environment: a store and a Placement that outlive each conductor, agents, and one conductor after
// the other.
type cloud struct {
	t         *testing.T
	store     *store.Store
	placement *placementtest.Placement
	agents    *agents

	onWait      func()      // called while a test waits: restarts a crashed conductor
	changed     atomic.Bool // the test has changed Placement itself
	noReports   bool        // no host reports to a compute that starts
	longRunning bool        // each compute runs for an hour already: agents that do not report are silent

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
	c.agents = &agents{store: s, conductor: c.conductor, devices: map[string][]string{},
		guests: map[string]map[string]*guest{},
		paused: map[string]bool{}, pending: map[string][]func(*Conductor) error{}, broken: map[string]bool{},
		removed: map[string]bool{}}
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
			found, err := conductor.HostAudit(context.Background(), host)
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
		InPlacement: true, Seen: at}
	for _, text := range c.agents.devices[host] {
		address, err := pci.ParseAddress(text)
		if err != nil {
			c.t.Fatal(err)
		}
		report.Devices = append(report.Devices, schedule.Device{Device: pci.Device{Address: address, Type: pci.Virtual},
			ResourceClass: class, Provider: of(host, text), State: schedule.Available, LiveMigratable: pci.Yes})
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
		now.presence.reported(h)
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
		return c.buildAsk(s)
	}
}

// start starts a conductor on these views of the store and of Placement. stop or the context ends it.
func (c *cloud) start(ctx context.Context, s Store, p Placement) {
	ctx, cancel := context.WithCancel(ctx)
	conductor := New(s, p)
	conductor.Log = slog.New(slog.DiscardHandler)
	conductor.Aliases, conductor.PCIInPlacement = aliases(c.t), true
	keepAsks(conductor)
	conductor.runner.Retry.First = 4 * time.Millisecond
	if c.longRunning {
		conductor.firstReports = time.Millisecond // it has waited for them long ago
		conductor.started = conductor.started.Add(-time.Hour)
		clock := conductor.presence.clock
		conductor.presence.clock = func() time.Duration { return time.Hour + clock() }
	}
	hosts, err := c.store.Hosts(ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, h := range hosts {
		if time.Since(h.Seen) < schedule.Silence && !c.noReports {
			conductor.presence.reported(h)
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

// aliases are the aliases of flavors.
func aliases(t *testing.T) pci.Aliases {
	t.Helper()
	as, err := pci.ParseAliases(true, `{"name": "nic", "resource_class": "CUSTOM_NIC", "live_migratable": "yes"}`)
	if err != nil {
		t.Fatal(err)
	}
	return as
}

// server asks for one device.
func server(id string) lifecycle.Server {
	r := pci.Request{ID: "R-" + id, Alias: "nic", Count: 1, Requirement: pci.Requirement{Class: class}}
	return lifecycle.Server{ID: id, Name: id, Project: "p", User: "u", Requests: []pci.Request{r},
		Ask: resource.Ask{Groups: []resource.Group{{Suffix: r.GroupSuffix(0), Resources: resource.Amounts{class: 1}}}}}
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

func (c *cloud) waitFor(what string, true func() bool) {
	c.t.Helper()
	for end := time.Now().Add(30 * time.Second); !true(); time.Sleep(2 * time.Millisecond) {
		c.onWait()
		if time.Now().After(end) {
			c.t.Fatalf("waited 30 s for: %s\n%s", what, c.histories())
		}
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

// checkConsistent checks that Placement, the agents and the records agree when all servers are settled: each
// residence of a server has an allocation of exactly the chosen providers, and a guest with a device from each of
// them in its host's assignments. No other consumer has an allocation, and no device belongs to two guests.
func (c *cloud) checkConsistent(when string) {
	c.t.Helper()
	c.agents.mu.Lock()
	defer c.agents.mu.Unlock()
	consumers, guests := map[string]bool{}, map[string]bool{}
	for _, s := range c.servers() {
		if s.State == lifecycle.Error && s.Fault == nil {
			c.t.Errorf("%s: %s failed without a fault", when, s.ID)
		}
		for _, stay := range s.Residences() {
			consumers[stay.Consumer] = true
			held, want := devices(c.placement.Held(resource.ConsumerID(stay.Consumer))), resource.Allocation{}
			for _, r := range stay.Requests {
				for _, p := range r.Providers {
					want[p] = resource.Amounts{class: want[p][class] + 1}
				}
			}
			if !held.Equal(want) && len(stay.Requests)+len(held) > 0 {
				c.t.Errorf("%s: %s is on %s as %s and holds %v, not %v", when, s.ID, stay.Host, stay.Consumer, held, want)
			}
		}
		for _, e := range s.Entries() {
			guests[e.Host+" "+e.Consumer] = true
			c.checkGuest(when, e)
		}
	}
	for _, id := range c.placement.Consumers() {
		if !consumers[string(id)] {
			c.t.Errorf("%s: %s holds %v, and is of no server", when, id, c.placement.Held(id))
		}
	}
	for host, of := range c.agents.guests {
		taken := map[string]string{}
		for id, g := range of {
			if !guests[host+" "+id] {
				c.t.Errorf("%s: %s has a guest %s that is of no server", when, host, id)
			}
			for _, d := range g.devices {
				if taken[d.Address] != "" {
					c.t.Errorf("%s: %s on %s is held by %s and %s", when, d.Address, host, id, taken[d.Address])
				}
				taken[d.Address] = id
			}
		}
	}
	if c.t.Failed() {
		c.t.Log(c.histories())
	}
}

// checkGuest checks that the agent has the guest of an entry, with its devices and its power state.
func (c *cloud) checkGuest(when string, e lifecycle.Entry) {
	c.t.Helper()
	g := c.agents.guests[e.Host][e.Consumer]
	if g == nil {
		c.t.Errorf("%s: %s has no guest %s", when, e.Host, e.Consumer)
		return
	}
	if g.runs != (e.Power == lifecycle.On) {
		c.t.Errorf("%s: guest %s on %s runs: %v", when, e.Consumer, e.Host, g.runs)
	}
	want := map[string]int{}
	for _, r := range e.Requests {
		for _, p := range r.Providers {
			want[r.ID+" "+string(p)]++
		}
	}
	got := map[string]int{}
	for _, d := range g.devices {
		got[d.RequestID+" "+string(d.Provider)]++
	}
	if !maps.Equal(want, got) || !slices.Equal(g.devices, e.Residence.Devices) {
		c.t.Errorf("%s: guest %s on %s has %v, the record says %v, chosen were %v", when, e.Consumer, e.Host, g.devices,
			e.Residence.Devices, want)
	}
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

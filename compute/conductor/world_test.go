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

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const class = resource.Class("CUSTOM_NIC")

// ledger is a Placement in memory: hosts with a root and one provider of devices each.
type ledger struct {
	mu       sync.Mutex
	capacity map[provider.ID]int // devices
	root     map[provider.ID]provider.ID
	held     map[resource.ConsumerID]placement.ConsumerAllocation
	raised   int // counts up the consumers' generations
	hidden   bool
	secret   map[provider.ID]bool // providers that are not offered
	reserved map[provider.ID]int
	written  map[provider.ID]int             // generations
	spent    map[provider.ID]int             // how many devices there are of those that are spent
	misses   []string                        // what was not true of them
	deny     bool                            // no reshape is taken
	put      func(resource.ConsumerID) error // asked before each PutAllocation
}

func newLedger(devices map[string]int) *ledger {
	l := &ledger{capacity: map[provider.ID]int{}, root: map[provider.ID]provider.ID{},
		held:     map[resource.ConsumerID]placement.ConsumerAllocation{},
		reserved: map[provider.ID]int{}, written: map[provider.ID]int{}, spent: map[provider.ID]int{}}
	for host, n := range devices {
		l.capacity[provider.ID("pf-"+host)], l.root[provider.ID("pf-"+host)] = n, provider.ID("root-"+host)
	}
	return l
}

// hide keeps a provider from being offered, or no more.
func (l *ledger) hide(id provider.ID, hidden bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.secret = map[provider.ID]bool{id: hidden}
}

// second gives a host another provider with so many devices.
func (l *ledger) second(host string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.capacity[provider.ID("qf-"+host)], l.root[provider.ID("qf-"+host)] = n, provider.ID("root-"+host)
}

func (l *ledger) used(id provider.ID) int {
	n := 0
	for _, h := range l.held {
		n += h.Allocation[id][class]
	}
	return n
}

func (l *ledger) Candidates(_ context.Context, ask resource.Ask) (placement.Candidates, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := placement.Candidates{Summaries: map[provider.ID]placement.Summary{}}
	for _, pf := range slices.Sorted(maps.Keys(l.capacity)) {
		c := placement.Candidate{Allocation: resource.Allocation{}, Mappings: map[string][]provider.ID{}}
		for _, g := range ask.Groups {
			if g.Resources[class] == 0 {
				c.Allocation[pf] = resource.Amounts{} // a host must be named
				continue
			}
			c.Allocation[pf] = resource.Amounts{class: c.Allocation[pf][class] + g.Resources[class]}
			c.Mappings[g.Suffix] = []provider.ID{pf}
		}
		tree := ask.Groups[0].InTree
		if l.hidden || l.secret[pf] || tree != "" && tree != l.root[pf] ||
			l.used(pf)+c.Allocation[pf][class] > l.capacity[pf]-l.reserved[pf] {
			continue
		}
		out.List = append(out.List, c)
		out.Summaries[pf] = placement.Summary{Root: l.root[pf], Parent: l.root[pf]}
		out.Summaries[l.root[pf]] = placement.Summary{Root: l.root[pf]}
	}
	if len(out.List) == 0 {
		out.Reason = "all devices are taken"
	}
	return out, nil
}

func (l *ledger) Allocation(_ context.Context, id resource.ConsumerID) (placement.ConsumerAllocation, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[id], nil
}

func (l *ledger) ProviderAllocations(_ context.Context, id provider.ID) (
	map[resource.ConsumerID]resource.Amounts, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[resource.ConsumerID]resource.Amounts{}
	for consumer, held := range l.held {
		if amounts := held.Allocation[id]; len(amounts) > 0 {
			out[consumer] = amounts
		}
	}
	return out, nil
}

func (l *ledger) PutAllocation(_ context.Context, id resource.ConsumerID, held placement.ConsumerAllocation) error {
	if l.put != nil {
		if err := l.put(id); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.write(id, held)
}

func (l *ledger) write(id resource.ConsumerID, held placement.ConsumerAllocation) error {
	now, there := l.held[id]
	if (held.Generation == nil) == there || there && *held.Generation != *now.Generation {
		return moved()
	}
	delete(l.held, id)
	for pf, amounts := range held.Allocation {
		if l.used(pf)+amounts[class] > l.capacity[pf]-l.reserved[pf] {
			if there {
				l.held[id] = now
			}
			return fault.New(fault.Conflict, "", "%s has not enough %s left", pf, class).WithCode(placement.CodeUndefined)
		}
	}
	if len(held.Allocation) == 0 {
		return nil
	}
	l.raised++
	generation := l.raised
	held.Generation = &generation
	l.held[id] = held
	return nil
}

func (l *ledger) PutAllocations(_ context.Context, all map[resource.ConsumerID]placement.ConsumerAllocation) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.writeAll(all)
}

func (l *ledger) writeAll(all map[resource.ConsumerID]placement.ConsumerAllocation) error {
	before := maps.Clone(l.held)
	for _, empties := range []bool{true, false} { // those that give first
		for id, held := range all {
			if (len(held.Allocation) == 0) != empties {
				continue
			}
			if err := l.write(id, held); err != nil {
				l.held = before
				return err
			}
		}
	}
	return nil
}

func moved() error {
	return fault.New(fault.Conflict, "", "a generation has moved").WithCode(placement.CodeConcurrentUpdate)
}

func (l *ledger) DeleteAllocation(_ context.Context, id resource.ConsumerID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, id)
	return nil
}

// agents are those of all hosts, with one journal. They outlive compute, repeat what they say until it is heard, and
// build, move or fail as told.
type agents struct {
	store *store.Store // to read the assignments, as the watch would
	told  func() *Conductor
	fails func(host string) string // why guests cannot be built there, or nothing
	stuck func(host string) string // why guests cannot leave it by live migration, or nothing

	mu      sync.Mutex
	devices map[string][]string // addresses of each host
	guests  map[string]map[string]*guest
	unsaid  map[string][]func(*Conductor) error
	broken  map[string]bool // by host and consumer: failed here
	dark    map[string]bool // hosts whose agents do not look
	removed map[string]bool // by host and consumer: the removal has been reported and compute still names it
	number  int64           // of the last guest report of any of them
}

// guest is what an agent's journal and hypervisor have of one consumer.
type guest struct {
	devices []schedule.Picked
	build   int
	runs    bool
	heard   bool   // compute has taken in its claim
	said    string // the phase that was told last
}

// look makes each host what its assignments say, once.
func (a *agents) look(t *testing.T) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for host := range a.devices {
		if a.dark[host] {
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
			a.say(host, r.Consumer, lifecycle.GuestGone{Host: host, Consumer: r.Consumer})
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
		case !g.heard:
			delete(a.guests[host], id)
			a.say(host, id, lifecycle.GuestGone{Host: host, Consumer: id})
		default:
			t.Errorf("the guest %s on %s is neither assigned nor named for removal", id, host)
			delete(a.guests[host], id)
		}
	}
}

// rename gives guests the id under which they stand in the assignments now.
func (a *agents) rename(host string, entries []store.Entry) {
	for _, e := range entries {
		if was := a.guests[host][e.PreviousConsumer]; e.PreviousConsumer != "" && was != nil &&
			a.guests[host][e.Consumer] == nil {
			delete(a.guests[host], e.PreviousConsumer)
			a.guests[host][e.Consumer] = was
			was.said, was.heard = "", true
		}
	}
}

// build makes one guest what its entry says.
func (a *agents) build(t *testing.T, host string, e store.Entry) {
	id := e.Consumer
	g := a.guests[host][id]
	switch {
	case a.broken[host+" "+id]:
		return
	case g == nil && a.fails != nil && a.fails(host) != "":
		a.broken[host+" "+id] = true
		a.say(host, id, lifecycle.GuestFailed{Host: host, Consumer: id, Message: a.fails(host)})
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
	if !g.heard && a.guest(a.told(), host, id, a.next(), lifecycle.GuestClaimed{Host: host, Consumer: id,
		Devices: g.devices, Build: e.Server.Builds}) != nil {
		return // nothing is built that compute has not heard of
	}
	g.heard = true
	if e.Incoming {
		return
	}
	if e.Outgoing != "" {
		a.send(host, id, e, g)
		return
	}
	g.build, g.runs = e.Server.Builds, e.Power == lifecycle.On
	phase := fmt.Sprint(g.runs, g.build)
	if g.said == phase {
		return
	}
	g.said = phase
	if g.runs {
		a.say(host, id, lifecycle.GuestRunning{Host: host, Consumer: id, Devices: g.devices, Build: g.build})
	} else {
		a.say(host, id, lifecycle.GuestStopped{Host: host, Consumer: id, Devices: g.devices, Build: g.build})
	}
}

// send lets a guest go by live migration: from now on it runs there.
func (a *agents) send(host, id string, e store.Entry, g *guest) {
	switch {
	case g.said == "outgoing":
	case a.stuck != nil && a.stuck(host) != "":
		g.said = "outgoing"
		a.say(host, id, lifecycle.GuestFailed{Host: host, Consumer: id, Message: a.stuck(host)})
	default:
		if len(e.DeviceMap) != len(g.devices) {
			panic(fmt.Sprintf("%d devices are to become %v", len(g.devices), e.DeviceMap))
		}
		g.said, g.runs = "outgoing", false
		a.say(host, id, lifecycle.GuestMigrated{Host: host, Consumer: id})
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

func (a *agents) say(host, id string, e lifecycle.Event) {
	number := a.next()
	a.unsaid[host] = append(a.unsaid[host], func(c *Conductor) error {
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

// deliver says what is to be said, in order, until somebody does not listen.
func (a *agents) deliver() {
	for host, list := range a.unsaid {
		for len(list) > 0 && list[0](a.told()) == nil {
			list = list[1:]
		}
		a.unsaid[host] = list
	}
}

// cloud is the whole of it: a store that outlives each compute, a ledger, agents, and one compute after the other.
type cloud struct {
	t      *testing.T
	store  *store.Store
	ledger *ledger
	agents *agents

	again  func()      // called while somebody waits: begins the compute anew if it has crashed
	others atomic.Bool // the test has changed the ledger itself
	mute   bool        // no host reports to a compute that starts
	old    bool        // each compute runs for an hour already: agents that do not report are silent

	mu   sync.Mutex
	now  *Conductor
	stop func() // ends the present compute and waits for its end
}

// newCloud has one host for each name, with so many devices; its agent has reported.
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
	c := &cloud{t: t, store: s, ledger: newLedger(devices), stop: func() {}, again: func() {}}
	c.agents = &agents{store: s, told: c.conductor, devices: map[string][]string{}, guests: map[string]map[string]*guest{},
		dark: map[string]bool{}, unsaid: map[string][]func(*Conductor) error{}, broken: map[string]bool{},
		removed: map[string]bool{}}
	for host, n := range devices {
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
				c.agents.look(t)
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

// auditing audits all hosts all the time. Whatever the servers do, no audit may find anything, unless the test has
// changed the ledger itself.
func (c *cloud) auditing(hosts []string, quit <-chan struct{}) {
	for {
		select {
		case <-quit:
			return
		case <-time.After(5 * time.Millisecond):
		}
		conductor := c.conductor()
		for _, host := range hosts {
			if conductor == nil || c.others.Load() {
				continue
			}
			found, err := conductor.HostAudit(context.Background(), host)
			if err == nil && !c.others.Load() && len(found.Missing)+len(found.Foreign) > 0 {
				c.t.Errorf("an audit of %s finds %+v\n%s", host, found, c.trails())
			}
		}
	}
}

// report is what the agent of a host says now.
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

// put stores a report, and lets the present compute know of a recent one.
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
	c.build = func(s lifecycle.Server) (lifecycle.Prepared, error) {
		if s.Move == nil && len(s.Ask.Groups) > 0 {
			return lifecycle.Prepared{Ask: s.Ask, Requests: s.Requests, Topology: s.Topology}, nil
		}
		return c.buildAsk(s)
	}
}

// start begins a compute over these views of the store and the ledger, ended by stop or by the context.
func (c *cloud) start(ctx context.Context, s Store, p Placement) {
	ctx, cancel := context.WithCancel(ctx)
	conductor := New(s, p)
	conductor.Log = slog.New(slog.DiscardHandler)
	conductor.Aliases, conductor.PCIInPlacement = aliases(c.t), true
	keepAsks(conductor)
	conductor.runner.Retry.First = 4 * time.Millisecond
	if c.old {
		conductor.started = conductor.started.Add(-time.Hour)
		clock := conductor.presence.clock
		conductor.presence.clock = func() time.Duration { return time.Hour + clock() }
	}
	hosts, err := c.store.Hosts(ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, h := range hosts {
		if time.Since(h.Seen) < schedule.Silence && !c.mute {
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
func (c *cloud) settled() {
	c.t.Helper()
	c.until("every server settles", func() bool { return !slices.ContainsFunc(c.servers(), restless) })
}

// restless reports whether something is still to be done for a server, or said of it.
func restless(s lifecycle.Server) bool {
	rest := []lifecycle.State{lifecycle.Active, lifecycle.Shelved, lifecycle.Error, lifecycle.Deleted}
	return !slices.Contains(rest, s.State) && s.Phase() != lifecycle.Resized || s.TaskState() != "" || len(s.Leftovers) > 0
}

func (c *cloud) until(what string, true func() bool) {
	c.t.Helper()
	for end := time.Now().Add(30 * time.Second); !true(); time.Sleep(2 * time.Millisecond) {
		c.again()
		if time.Now().After(end) {
			c.t.Fatalf("waited 30 s for: %s\n%s", what, c.trails())
		}
	}
}

// trails is what a person would be told of all servers.
func (c *cloud) trails() string {
	out := ""
	for _, s := range c.servers() {
		out += fmt.Sprintf("%s %s\n", s.ID, s.Stage())
		for _, m := range s.History {
			out += fmt.Sprintf("   %s ×%d\n", m.Text, m.Times)
		}
	}
	return out
}

// whole checks that Placement, the agents and the records agree, when nothing is on its way: each stay of a server has
// its claim of exactly the chosen providers, and in its host's assignments a guest with a device from each of them;
// nobody else holds anything, and nobody holds what another does (invariants 8.1/1, 8.1/2 and 8.1/10).
func (c *cloud) whole(when string) {
	c.t.Helper()
	c.agents.mu.Lock()
	defer c.agents.mu.Unlock()
	c.ledger.mu.Lock()
	defer c.ledger.mu.Unlock()
	consumers, guests := map[string]bool{}, map[string]bool{}
	for _, s := range c.servers() {
		if s.State == lifecycle.Error && s.Fault == nil {
			c.t.Errorf("%s: %s failed without a sentence", when, s.ID)
		}
		for _, stay := range s.Residences() {
			consumers[stay.Consumer] = true
			held, want := c.ledger.held[resource.ConsumerID(stay.Consumer)].Allocation, resource.Allocation{}
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
			c.has(when, e)
		}
	}
	for id := range c.ledger.held {
		if !consumers[string(id)] {
			c.t.Errorf("%s: %s holds %v, and is of no server", when, id, c.ledger.held[id].Allocation)
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
		c.t.Log(c.trails())
	}
}

// has checks that the agent has the guest of an entry, with its devices, running as it shall.
func (c *cloud) has(when string, e lifecycle.Entry) {
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

// count says how many servers are in a state.
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

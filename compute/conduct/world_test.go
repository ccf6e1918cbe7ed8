package conduct

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
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
	held     map[resource.ConsumerID]placement.Held
	raised   int // counts up the consumers' generations
	hidden   bool
	put      func(resource.ConsumerID) error // asked before each PutAllocation
}

func newLedger(devices map[string]int) *ledger {
	l := &ledger{capacity: map[provider.ID]int{}, root: map[provider.ID]provider.ID{}, held: map[resource.ConsumerID]placement.Held{}}
	for host, n := range devices {
		l.capacity[provider.ID("pf-"+host)], l.root[provider.ID("pf-"+host)] = n, provider.ID("root-"+host)
	}
	return l
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
			c.Allocation[pf] = resource.Amounts{class: c.Allocation[pf][class] + g.Resources[class]}
			c.Mappings[g.Suffix] = []provider.ID{pf}
		}
		if l.hidden || l.used(pf)+c.Allocation[pf][class] > l.capacity[pf] {
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

func (l *ledger) Allocation(_ context.Context, id resource.ConsumerID) (placement.Held, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[id], nil
}

func (l *ledger) PutAllocation(_ context.Context, id resource.ConsumerID, held placement.Held) error {
	if l.put != nil {
		if err := l.put(id); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now, there := l.held[id]
	if (held.Generation == nil) == there || there && *held.Generation != *now.Generation {
		return moved()
	}
	delete(l.held, id)
	for pf, amounts := range held.Allocation {
		if l.used(pf)+amounts[class] > l.capacity[pf] {
			if there {
				l.held[id] = now
			}
			return fault.New(fault.Conflict, "", "%s has not enough %s left", pf, class).WithCode(placement.CodeUndefined)
		}
	}
	l.raised++
	generation := l.raised
	held.Generation = &generation
	l.held[id] = held
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

// agents are those of all hosts, with one journal. They outlive compute, repeat what they say until it is heard, and build
// or fail as told.
type agents struct {
	store *store.Store // to read the assignments, as the watch would
	told  func() *Conductor
	fails func(host string) string // why guests cannot be built there, or nothing

	mu      sync.Mutex
	devices map[string][]string // addresses of each host
	holder  map[string]string   // by host and address: the server
	unsaid  map[string][]func(*Conductor) error
	broken  map[string]bool // by host and server: failed here
}

// look makes each host what its assignments say, once.
func (a *agents) look(t *testing.T) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for host := range a.devices {
		now, err := a.store.Assignments(context.Background(), host)
		if err != nil {
			t.Errorf("assignments of %s: %v", host, err)
			return
		}
		wanted := map[string]lifecycle.Server{}
		for _, s := range now.Servers {
			wanted[s.ID] = s
		}
		for _, address := range a.devices[host] {
			id := a.holder[host+address]
			if _, stays := wanted[id]; id != "" && !stays {
				delete(a.holder, host+address)
				a.say(host, id, lifecycle.GuestGone{Host: host})
			}
		}
		for _, s := range now.Servers {
			a.build(t, host, s)
		}
	}
	a.deliver()
}

func (a *agents) build(t *testing.T, host string, s lifecycle.Server) {
	free := ""
	for _, address := range a.devices[host] {
		switch a.holder[host+address] {
		case s.ID:
			return // it is built already
		case "":
			free = address
		}
	}
	switch {
	case a.broken[host+s.ID]:
	case a.fails != nil && a.fails(host) != "":
		a.broken[host+s.ID] = true
		a.say(host, s.ID, lifecycle.GuestFailed{Host: host, Message: a.fails(host)})
	case free == "":
		t.Errorf("%s was given %s, and has no device for it", host, s.ID)
		a.broken[host+s.ID] = true
	default:
		picked := []schedule.Picked{{RequestID: s.Requests[0].ID, Address: free, Provider: provider.ID("pf-" + host)}}
		if a.told().Guest(context.Background(), s.ID, lifecycle.GuestClaimed{Host: host, Devices: picked}) != nil {
			return // nothing is built that compute has not heard of
		}
		a.holder[host+free] = s.ID
		a.say(host, s.ID, lifecycle.GuestRunning{Host: host, Devices: picked})
	}
}

func (a *agents) say(host, id string, e lifecycle.Event) {
	a.unsaid[host] = append(a.unsaid[host], func(c *Conductor) error { return c.Guest(context.Background(), id, e) })
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
	c := &cloud{t: t, store: s, ledger: newLedger(devices), stop: func() {}}
	c.agents = &agents{store: s, told: c.conductor, devices: map[string][]string{}, holder: map[string]string{},
		unsaid: map[string][]func(*Conductor) error{}, broken: map[string]bool{}}
	for host, n := range devices {
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

// report is what the agent of a host says now.
func (c *cloud) report(host string) {
	c.t.Helper()
	report := schedule.Host{Name: host, Provider: provider.ID("root-" + host), InPlacement: true, Seen: time.Now()}
	for i := range c.agents.devices[host] {
		report.Devices = append(report.Devices, schedule.Device{Device: pci.Device{Address: pci.Address{Bus: 0x3b, Slot: uint8(i)}, Type: pci.Virtual},
			ResourceClass: class, Provider: provider.ID("pf-" + host), State: schedule.Available})
	}
	if err := c.store.PutReport(c.t.Context(), report); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cloud) conductor() *Conductor {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// start begins a compute over these views of the store and the ledger, ended by stop or by the context.
func (c *cloud) start(ctx context.Context, s Store, p Placement) {
	ctx, cancel := context.WithCancel(ctx)
	conductor := New(s, p)
	conductor.Log = slog.New(slog.DiscardHandler)
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

// server asks for one device.
func server(id string) lifecycle.Server {
	r := pci.Request{ID: "R-" + id, Alias: "nic", Count: 1, Want: pci.Want{Class: class}}
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

// settled waits until every server is active, in error or deleted.
func (c *cloud) settled() {
	c.t.Helper()
	c.until("every server settles", func() bool {
		return !slices.ContainsFunc(c.servers(), func(s lifecycle.Server) bool {
			return !slices.Contains([]lifecycle.State{lifecycle.Active, lifecycle.Error, lifecycle.Deleted}, s.State)
		})
	})
}

func (c *cloud) until(what string, true func() bool) {
	c.t.Helper()
	for end := time.Now().Add(30 * time.Second); !true(); time.Sleep(3 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("waited 30 s for: %s\n%s", what, c.trails())
		}
	}
}

// trails is what a person would be told of all servers.
func (c *cloud) trails() string {
	out := ""
	for _, s := range c.servers() {
		out += fmt.Sprintf("%s %s\n", s.ID, s.State)
		for _, m := range s.Trail {
			out += fmt.Sprintf("   %s ×%d\n", m.Text, m.Times)
		}
	}
	return out
}

// whole checks that Placement, the agents and the records agree: who is active holds one device and its claim, nobody else
// holds anything.
func (c *cloud) whole(when string) {
	c.t.Helper()
	c.agents.mu.Lock()
	defer c.agents.mu.Unlock()
	c.ledger.mu.Lock()
	defer c.ledger.mu.Unlock()
	active := map[string]string{} // the host of each
	for _, s := range c.servers() {
		if s.State == lifecycle.Active {
			active[s.ID] = s.Host
		}
		if s.State == lifecycle.Error && s.Fault == nil {
			c.t.Errorf("%s: %s failed without a sentence", when, s.ID)
		}
	}
	for id, host := range active {
		held, want := c.ledger.held[resource.ConsumerID(id)].Allocation, resource.Allocation{provider.ID("pf-" + host): {class: 1}}
		if !held.Equal(want) {
			c.t.Errorf("%s: %s is active on %s and holds %v", when, id, host, held)
		}
	}
	for id := range c.ledger.held {
		if active[string(id)] == "" {
			c.t.Errorf("%s: %s is not active and holds %v", when, id, c.ledger.held[id].Allocation)
		}
	}
	holders := map[string]bool{}
	for at, id := range c.agents.holder {
		if holders[id] || active[id] == "" {
			c.t.Errorf("%s: %s holds %s, active on %q, twice: %v", when, id, at, active[id], holders[id])
		}
		holders[id] = true
	}
	if len(holders) != len(active) {
		c.t.Errorf("%s: %d active servers, %d hold a device", when, len(active), len(holders))
	}
	if c.t.Failed() {
		c.t.Log(c.trails())
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

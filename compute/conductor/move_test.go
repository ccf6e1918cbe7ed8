package conductor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

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
		err := c.conductor().Delete(context.Background(), "s")
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

// larger returns the request for a resize to n devices.
func larger(id string, n int) lifecycle.ActionRequested {
	specs := map[string]string{}
	if n > 0 {
		specs["pci_passthrough:alias"] = fmt.Sprintf("nic:%d", n)
	}
	return lifecycle.ActionRequested{ID: id, Action: lifecycle.Resize,
		Flavor: flavor.Flavor{ID: "f-" + id, VCPUs: 1, ExtraSpecs: specs}}
}

// operation is one operation on the server s, from its start to its end.
type operation struct {
	name    string
	hosts   map[string]int // devices of each; the server is made on host a
	setup   func(*cloud)   // before compute starts
	run     func(*cloud)   // with trouble
	state   lifecycle.State
	host    string
	devices int // devices in all, with those of migrations
}

// operations returns all operations on servers without spent devices.
func operations() []operation {
	two, three := map[string]int{"a": 1, "b": 2}, map[string]int{"a": 3}
	return []operation{
		{"resize to another host, confirmed", two, nil, func(c *cloud) {
			c.act(larger("m1", 2))
			c.settlePhase(lifecycle.Resized)
			c.act(lifecycle.ActionRequested{ID: "w1", Action: lifecycle.Confirm})
		}, lifecycle.Active, "b", 2},
		{"resize to another host, reverted", two, nil, func(c *cloud) {
			c.act(larger("m1", 2))
			c.settlePhase(lifecycle.Resized)
			c.act(lifecycle.ActionRequested{ID: "w1", Action: lifecycle.Revert})
		}, lifecycle.Active, "a", 1},
		{"resize on the same host, confirmed", three, nil, func(c *cloud) {
			c.act(here(larger("m1", 2)))
			c.settlePhase(lifecycle.Resized)
			c.act(lifecycle.ActionRequested{ID: "w1", Action: lifecycle.Confirm})
		}, lifecycle.Active, "a", 2},
		{"resize on the same host, reverted", three, nil, func(c *cloud) {
			c.act(here(larger("m1", 2)))
			c.settlePhase(lifecycle.Resized)
			c.act(lifecycle.ActionRequested{ID: "w1", Action: lifecycle.Revert})
		}, lifecycle.Active, "a", 1},
		{"cold migration, and live migration after it", two, nil, func(c *cloud) {
			c.act(lifecycle.ActionRequested{ID: "m1", Action: lifecycle.Migrate})
			c.settlePhase(lifecycle.Resized)
			c.act(lifecycle.ActionRequested{ID: "w1", Action: lifecycle.Confirm})
			c.settle(lifecycle.Active)
			c.act(lifecycle.ActionRequested{ID: "m2", Action: lifecycle.Live, To: "a"})
		}, lifecycle.Active, "a", 1},
		{"live migration", two, nil, func(c *cloud) {
			c.act(lifecycle.ActionRequested{ID: "m1", Action: lifecycle.Live})
		}, lifecycle.Active, "b", 1},
		{"live migration that cannot leave", two, func(c *cloud) {
			c.agents.stuck = func(string) string { return "no way" }
		}, func(c *cloud) {
			c.act(lifecycle.ActionRequested{ID: "m1", Action: lifecycle.Live})
		}, lifecycle.Active, "a", 1},
		{"evacuation, and its host returns", two, longRunning, func(c *cloud) {
			c.agents.pause("a", true)
			c.act(lifecycle.ActionRequested{ID: "m1", Action: lifecycle.Evacuate})
			c.waitFor("it is evacuated", func() bool { s := c.server(); return s.State == lifecycle.Active && s.Host == "b" })
			// the source's is held until its agent reports that it is free
			if a, b := c.usage("pf-a"), c.usage("pf-b"); a != 1 || b != 1 {
				c.t.Errorf("while the host is away: %d of a and %d of b are used", a, b)
			}
			c.agents.pause("a", false)
		}, lifecycle.Active, "b", 1},
		{"shelve and unshelve", two, nil, func(c *cloud) {
			c.act(lifecycle.ActionRequested{ID: "w1", Action: lifecycle.Shelve})
			c.settle(lifecycle.Shelved)
			c.act(lifecycle.ActionRequested{ID: "w2", Action: lifecycle.Unshelve})
		}, lifecycle.Active, "", 1},
		{"rebuild", two, nil, func(c *cloud) {
			c.act(lifecycle.ActionRequested{ID: "w1", Action: lifecycle.Rebuild, Image: "another"})
		}, lifecycle.Active, "a", 1},
		{"stop, start, reboot", two, nil, func(c *cloud) {
			for i, a := range []lifecycle.Action{lifecycle.Stop, lifecycle.Start, lifecycle.Reboot} {
				c.act(lifecycle.ActionRequested{ID: fmt.Sprint("w", i), Action: a})
				c.settle(lifecycle.Active)
			}
		}, lifecycle.Active, "a", 1},
		{"no host can build the resized server", two, func(c *cloud) {
			c.agents.fails = func(host string) string { return map[string]string{"b": "no hugepages"}[host] }
		}, func(c *cloud) {
			c.act(larger("m1", 1))
		}, lifecycle.Active, "a", 1},
		{"delete while a resize is to be confirmed", two, nil, func(c *cloud) {
			c.act(larger("m1", 2))
			c.settlePhase(lifecycle.Resized)
			c.deleteServer()
		}, lifecycle.Deleted, "", 0},
		{"delete in the middle of a resize", two, nil, func(c *cloud) {
			c.act(larger("m1", 2))
			c.deleteServer()
		}, lifecycle.Deleted, "", 0},
		{"delete while the host is down, which dies", two, longRunning, func(c *cloud) {
			c.agents.pause("a", true)
			c.deleteServer()
			c.waitFor("host a is declared dead", func() bool {
				return c.conductor().HostDown(context.Background(),
					"a") == nil
			})
			c.waitFor("nothing is held", func() bool { return c.server().State == lifecycle.Deleted })
			c.agents.pause("a", false)
		}, lifecycle.Deleted, "", 0},
	}
}

// allOperations returns all operations, also those with spent devices.
func allOperations() []operation { return append(operations(), spentOperations()...) }

func here(e lifecycle.ActionRequested) lifecycle.ActionRequested {
	e.SameHost = true
	return e
}

// longRunning makes each conductor run for an hour already, so that the silent agent of host a counts as dead.
func longRunning(c *cloud) { c.longRunning = true }

// pause stops the agent of a host, or starts it again.
func (a *agents) pause(host string, down bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.paused[host] = down
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

// agentsDone reports whether the agents have delivered their reports and have the guests of the assignments.
func (c *cloud) agentsDone() bool {
	c.agents.mu.Lock()
	defer c.agents.mu.Unlock()
	for _, list := range c.agents.pending {
		if len(list) > 0 {
			return false
		}
	}
	shall := 0
	for _, e := range c.server().Entries() {
		g := c.agents.guests[e.Host][e.Consumer]
		if g == nil || g.runs != (e.Power == lifecycle.On) || g.build != c.server().Builds {
			return false
		}
		shall++
	}
	for _, guests := range c.agents.guests {
		shall -= len(guests)
	}
	return shall == 0
}

// prepare creates a cloud with the server on host a, and stops the conductor.
func (st operation) prepare(t *testing.T) *cloud {
	t.Helper()
	c := newCloud(t, st.hosts)
	if st.setup != nil {
		st.setup(c)
	}
	fails := c.agents.fails
	c.agents.fails = func(host string) string { return "" }
	if len(st.hosts) > 1 {
		c.hide("pf-b")
	}
	c.start(t.Context(), c.store, c.client(nil))
	s := server("s")
	s.Requests[0].Requirement.LiveMigratable = pci.Yes
	if _, err := c.conductor().Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	c.settle(lifecycle.Active)
	c.stop()
	if len(st.hosts) > 1 {
		c.unhide("pf-b")
	}
	c.agents.mu.Lock()
	c.agents.fails = fails
	c.agents.mu.Unlock()
	if c.longRunning {
		c.reportAt("a", time.Now().Add(-time.Hour))
	}
	return c
}

// finish checks the result of an operation, and deletes the server.
func (st operation) finish(c *cloud) {
	c.t.Helper()
	c.settle(st.state)
	s := c.server()
	held := 0
	for _, id := range c.placement.Consumers() {
		held += c.placement.Held(id).Sum()[class]
	}
	if st.host != "" && s.Host != st.host || held != st.devices || s.Fault != nil {
		c.t.Errorf("the server is on %q and %d devices are held; fault %+v\n%s", s.Host, held, s.Fault, c.histories())
	}
	c.onWait = func() {}
	if s.State != lifecycle.Deleted {
		c.deleteServer()
		c.settle(lifecycle.Deleted)
	}
	if len(c.placement.Consumers()) != 0 {
		c.t.Errorf("held in the end:\n%s", c.allocations())
	}
	c.checkSpent("in the end")
}

// Every operation has its result if no call fails.
func TestOperations(t *testing.T) {
	for _, st := range allOperations() {
		t.Run(st.name, func(t *testing.T) {
			t.Parallel()
			c := st.prepare(t)
			c.start(t.Context(), c.store, c.client(nil))
			st.run(c)
			st.finish(c)
		})
	}
}

// Each call to the database and to Placement fails once in every operation, before its effect or with its answer
// lost.
func TestEveryOperationFailsAtEachCall(t *testing.T) {
	atEachCallOfEach(t, func(t *testing.T, st operation, at int, late bool) bool {
		c := st.prepare(t)
		tr := &trouble{fails: once(at, late)}
		c.start(t.Context(), troubledStore{c.store, tr}, c.client(tr.failPlacement))
		st.run(c)
		c.waitSettled()
		tr.rest()
		st.finish(c)
		return tr.count() >= at
	})
}

// The process ends at each call of every operation, before or after its effect, and is started again. Records,
// Placement and agents agree.
func TestEveryOperationCrashesAtEachCall(t *testing.T) {
	atEachCallOfEach(t, func(t *testing.T, st operation, at int, late bool) bool {
		c := st.prepare(t)
		ctx, end := context.WithCancel(t.Context())
		defer end()
		tr := &trouble{fails: crash(at, late, end)}
		c.start(ctx, troubledStore{c.store, tr}, c.client(tr.failPlacement))
		crashed := false
		c.onWait = func() {
			if ctx.Err() != nil && !crashed {
				crashed = true
				c.stop()
				c.start(t.Context(), c.store, c.client(nil))
			}
		}
		st.run(c)
		c.waitSettled()
		tr.rest()
		c.waitFor("the crash has been seen", func() bool { return ctx.Err() == nil || crashed })
		st.finish(c)
		return crashed
	})
}

// stride returns the distance between the calls that fail. The race detector makes each operation many times slower.
func stride() int {
	switch {
	case testing.Short():
		return 32
	case raceDetector:
		return 8
	}
	return 1
}

// atEachCallOfEach runs every operation once for each call in it, until no call is left.
func atEachCallOfEach(t *testing.T, live func(t *testing.T, st operation, at int, late bool) bool) {
	for _, st := range allOperations() {
		t.Run(st.name, func(t *testing.T) {
			t.Parallel()
			for _, late := range []bool{false, true} {
				if late && testing.Short() {
					continue
				}
				at := 0
				for reached := true; reached; {
					at++
					if at%stride() != 1%stride() {
						continue
					}
					reached = false // also if the test ends early
					t.Run(fmt.Sprintf("call %d late %v", at, late), func(t *testing.T) { reached = live(t, st, at, late) })
				}
				if at < 2 {
					t.Errorf("late %v: only %d calls: the test checks nothing", late, at-1)
				}
			}
		})
	}
}

// Of several providers on the destination, the server uses the one that Placement has chosen, also after a resize.
func TestMoveUsesTheChosenProvider(t *testing.T) {
	for _, taken := range []provider.ID{"pf-b", "qf-b"} {
		st := operation{hosts: map[string]int{"a": 1, "b": 2}}
		c := st.prepare(t)
		c.agents.mu.Lock()
		c.agents.devices["b"] = append(c.agents.devices["b"], "0000:3c:00.0", "0000:3c:00.1")
		c.agents.mu.Unlock()
		c.addProvider("qf-", "b", 2)
		c.report("b")
		for i := range 2 {
			other := resource.ConsumerID(fmt.Sprint("other", i))
			c.allocate(other, resource.Allocation{taken: {class: 1}})
		}
		c.start(t.Context(), c.store, c.client(nil))
		c.act(larger("m1", 2))
		c.waitSettled()
		want := map[provider.ID]provider.ID{"pf-b": "qf-b", "qf-b": "pf-b"}[taken]
		s := c.server()
		if s.Phase() != lifecycle.Resized || slices.ContainsFunc(s.Devices,
			func(d schedule.Picked) bool { return d.Provider != want }) ||
			!slices.Equal(s.Requests[0].Providers, []provider.ID{want, want}) {
			t.Errorf("%s: %v of %v\n%s", s.State, s.Devices, s.Requests, c.histories())
		}
		for i := range 2 {
			_ = c.placement.DeleteAllocation(t.Context(), resource.ConsumerID(fmt.Sprint("other", i)))
		}
		c.checkConsistent("resized")
	}
}

// While a resize waits to be confirmed, the migration holds the source's devices and the server the destination's.
func TestAllocationsWhileAMoveAwaitsConfirmation(t *testing.T) {
	c := operation{hosts: map[string]int{"a": 1, "b": 2}}.prepare(t)
	c.start(t.Context(), c.store, c.client(nil))
	before := c.server().Devices
	c.act(larger("m1", 2))
	c.settlePhase(lifecycle.Resized)
	s := c.server()
	m1, err := c.placement.Allocation(t.Context(), "m1")
	if err != nil || m1.Allocation["pf-a"][class] != 1 || m1.ConsumerType != "MIGRATION" ||
		c.placement.Held("s")["pf-b"][class] != 2 {
		t.Errorf("%v\n%s", err, c.allocations())
	}
	if !slices.Equal(s.Move.From.Devices, before) || s.Status() != "VERIFY_RESIZE" || s.Migration.Status != "finished" ||
		s.Shown().Flavor.ID != "f-m1" {
		t.Errorf("%+v %s %+v", s.Move, s.Status(), s.Migration)
	}
	list, err := c.store.Migrations(t.Context(), storeFilter("s"))
	if err != nil || len(list) != 1 || list[0].ID != "m1" || list[0].From != "a" || list[0].To != "b" {
		t.Errorf("%+v %v", list, err)
	}
}

// An action that the state, the devices or the host do not allow is refused with the reason.
func TestRefusedActions(t *testing.T) {
	c := operation{hosts: map[string]int{"a": 1, "b": 1}}.prepare(t)
	c.start(t.Context(), c.store, c.client(nil))
	refused := func(a lifecycle.Action, says string) {
		t.Helper()
		_, err := c.conductor().Act(t.Context(), "s", lifecycle.ActionRequested{ID: "w-" + string(a), Action: a})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", a, err)
		}
	}
	refused(lifecycle.Start, "Cannot 'start' instance s while it is in vm_state active")
	refused(lifecycle.Confirm, "Cannot 'confirmResize' instance s while it is in vm_state active")
	refused(lifecycle.Unshelve, "while it is in vm_state active")
	refused(lifecycle.Offload, "while it is in vm_state active")
	refused(lifecycle.Evacuate, "still in use")
	if _, err := c.store.Change(t.Context(), "s", func(s lifecycle.Server) lifecycle.Server {
		s.Requests = slices.Clone(s.Requests)
		s.Requests[0].Requirement.LiveMigratable = pci.Unset
		return s
	}); err != nil {
		t.Fatal(err)
	}
	refused(lifecycle.Live, "alias nic")
	if _, err := c.conductor().Act(t.Context(), "none", lifecycle.ActionRequested{Action: lifecycle.Stop}); !fault.Is(err,
		fault.NotFound) {
		t.Error(err)
	}
}

// A resize requests the devices of the new flavor: fewer, none, or some for a server without devices. If no host
// fits, nothing changes and the server keeps running.
func TestResizeRequestsTheNewFlavor(t *testing.T) {
	c := operation{hosts: map[string]int{"a": 1, "b": 1}}.prepare(t)
	c.start(t.Context(), c.store, c.client(nil))
	c.act(larger("m0", 2)) // no host has two
	c.settle(lifecycle.Active)
	if s := c.server(); s.Host != "a" || s.Migration.Status != "error" || !strings.Contains(c.histories(),
		"No valid host was found: Placement has no host with all of CUSTOM_NIC:2,VCPU:1 left. It goes back to a.") ||
		strings.Contains(c.histories(), "has stopped") {
		t.Error(c.histories())
	}
	for n, move := range []struct {
		devices int
		host    string
	}{{1, "b"}, {0, "a"}, {1, "b"}} {
		id := fmt.Sprint("m", n+1)
		request := larger(id, move.devices)
		request.To = move.host
		c.act(request)
		c.settlePhase(lifecycle.Resized)
		c.act(lifecycle.ActionRequested{ID: "w" + id, Action: lifecycle.Confirm})
		c.settle(lifecycle.Active)
		if s := c.server(); s.Host != move.host || len(s.Devices) != move.devices || s.Flavor.ID != "f-"+id {
			t.Errorf("%s: on %s with %v", id, s.Host, s.Devices)
		}
	}
}

// A server is shown as deleted at once although its host is silent. Its allocation remains until the agent reports
// that the guest is gone.
func TestDeleteWhileTheHostIsDown(t *testing.T) {
	st := operation{hosts: map[string]int{"a": 1}, setup: longRunning}
	c := st.prepare(t)
	c.start(t.Context(), c.store, c.client(nil))
	c.agents.pause("a", true)
	c.deleteServer()
	s := c.server()
	if s.Status() != "DELETED" || s.TaskState() != "deleting" || len(c.placement.Consumers()) != 1 {
		t.Errorf("%s %s, held %v", s.Status(), s.TaskState(), c.allocations())
	}
	if err := c.conductor().Delete(t.Context(), "s"); !fault.Is(err, fault.NotFound) {
		t.Errorf("deleted twice: %v", err)
	}
	if err := c.store.Purge(t.Context(), time.Now().Add(time.Hour), 0); err != nil {
		t.Fatal(err)
	}
	if c.server().State != lifecycle.DeletingGuest { // it is not forgotten as long as it holds something
		t.Error(c.histories())
	}
	c.agents.pause("a", false)
	c.settle(lifecycle.Deleted)
}

// A server is not moved to a host where a leftover of it remains.
func TestNoMoveToAHostWithLeftovers(t *testing.T) {
	st := operation{hosts: map[string]int{"a": 2, "b": 1}, setup: longRunning}
	c := st.prepare(t)
	c.start(t.Context(), c.store, c.client(nil))
	c.agents.pause("a", true)
	c.act(lifecycle.ActionRequested{ID: "m1", Action: lifecycle.Evacuate})
	c.waitFor("it is evacuated", func() bool {
		s := c.server()
		return s.State == lifecycle.Active && s.Host == "b" &&
			s.TaskState() == ""
	})
	c.report("a")
	c.act(lifecycle.ActionRequested{ID: "m2", Action: lifecycle.Migrate})
	c.waitFor("it is given up", func() bool {
		s := c.server()
		return s.Migration.ID == "m2" && s.Migration.Status == "error" && s.TaskState() == ""
	})
	if !strings.Contains(c.histories(), "an earlier guest of the server there is not gone yet") {
		t.Error(c.histories())
	}
	c.agents.pause("a", false)
	c.settle(lifecycle.Active)
	c.act(lifecycle.ActionRequested{ID: "m3", Action: lifecycle.Migrate})
	c.settlePhase(lifecycle.Resized)
}

// Servers of one request are built together or not at all, each on devices of its own.
func TestMinCountOrNone(t *testing.T) {
	for room, built := range map[int]int{3: 3, 2: 0} {
		c := newCloud(t, map[string]int{"a": room})
		c.start(t.Context(), c.store, c.client(nil))
		var list []lifecycle.Server
		for i := range 3 {
			s := server(fmt.Sprintf("aaaaaaaa-bbbb-%d", i))
			s.MinCount = 3
			list = append(list, s)
		}
		if _, err := c.conductor().Create(t.Context(), list...); err != nil {
			t.Fatal(err)
		}
		c.waitSettled()
		c.checkConsistent("mustered")
		if c.count(lifecycle.Active) != built {
			t.Errorf("room for %d: %d active\n%s", room, c.count(lifecycle.Active), c.histories())
		}
		for _, s := range c.servers() {
			if s.State == lifecycle.Error && s.Fault.Message == "" {
				t.Errorf("%s: no sentence", s.ID)
			}
		}
	}
}

func storeFilter(server string) store.MigrationFilter { return store.MigrationFilter{Server: server} }

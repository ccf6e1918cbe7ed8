package conductor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// ask asks until somebody has heard it. A refusal ends the test.
func (c *cloud) ask(wish lifecycle.ActionRequested) {
	c.t.Helper()
	c.until(string(wish.Action)+" is heard", func() bool {
		_, err := c.conductor().Act(context.Background(), "s", wish)
		if err == nil {
			return true
		}
		s, lost := c.store.Read(context.Background(), "s")
		if lost == nil && s.LastAction == wish.ID {
			return true // only the answer was lost
		}
		if fault.Is(err, fault.Conflict) && s.TaskState() == "" {
			c.t.Fatalf("%s is refused: %v\n%s", wish.Action, err, c.trails())
		}
		return false
	})
}

// remove asks for the end of the server until somebody has heard it.
func (c *cloud) remove() {
	c.t.Helper()
	c.until("delete is heard", func() bool {
		err := c.conductor().Delete(context.Background(), "s")
		return err == nil || fault.Is(err, fault.NotFound)
	})
}

// one is the server of these stories.
func (c *cloud) one() lifecycle.Server {
	c.t.Helper()
	s, err := c.store.Read(context.Background(), "s")
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

// larger asks for so many devices.
func larger(id string, n int) lifecycle.ActionRequested {
	specs := map[string]string{}
	if n > 0 {
		specs["pci_passthrough:alias"] = fmt.Sprintf("nic:%d", n)
	}
	return lifecycle.ActionRequested{ID: id, Action: lifecycle.Resize,
		Flavor: flavor.Flavor{ID: "f-" + id, VCPUs: 1, ExtraSpecs: specs}}
}

// story is one operation from its begin to its end.
type story struct {
	name  string
	hosts map[string]int // devices of each; the server is made on host a
	setup func(*cloud)   // before compute starts
	tell  func(*cloud)   // with trouble
	state lifecycle.State
	host  string
	holds int // devices in all, with those of migrations
}

// stories are all operations. Their names bear the rows that they cover.
func stories() []story {
	two, three := map[string]int{"a": 1, "b": 2}, map[string]int{"a": 3}
	return []story{
		{"resize to another host, confirmed", two, nil, func(c *cloud) {
			c.ask(larger("m1", 2))
			c.settlePhase(lifecycle.Resized)
			c.ask(lifecycle.ActionRequested{ID: "w1", Action: lifecycle.Confirm})
		}, lifecycle.Active, "b", 2},
		{"resize to another host, reverted", two, nil, func(c *cloud) {
			c.ask(larger("m1", 2))
			c.settlePhase(lifecycle.Resized)
			c.ask(lifecycle.ActionRequested{ID: "w1", Action: lifecycle.Revert})
		}, lifecycle.Active, "a", 1},
		{"resize on the same host, confirmed", three, nil, func(c *cloud) {
			c.ask(here(larger("m1", 2)))
			c.settlePhase(lifecycle.Resized)
			c.ask(lifecycle.ActionRequested{ID: "w1", Action: lifecycle.Confirm})
		}, lifecycle.Active, "a", 2},
		{"resize on the same host, reverted", three, nil, func(c *cloud) {
			c.ask(here(larger("m1", 2)))
			c.settlePhase(lifecycle.Resized)
			c.ask(lifecycle.ActionRequested{ID: "w1", Action: lifecycle.Revert})
		}, lifecycle.Active, "a", 1},
		{"cold migration, and live migration after it", two, nil, func(c *cloud) {
			c.ask(lifecycle.ActionRequested{ID: "m1", Action: lifecycle.Migrate})
			c.settlePhase(lifecycle.Resized)
			c.ask(lifecycle.ActionRequested{ID: "w1", Action: lifecycle.Confirm})
			c.settle(lifecycle.Active)
			c.ask(lifecycle.ActionRequested{ID: "m2", Action: lifecycle.Live, To: "a"})
		}, lifecycle.Active, "a", 1},
		{"live migration", two, nil, func(c *cloud) {
			c.ask(lifecycle.ActionRequested{ID: "m1", Action: lifecycle.Live})
		}, lifecycle.Active, "b", 1},
		{"live migration that cannot leave", two, func(c *cloud) {
			c.agents.stuck = func(string) string { return "no way" }
		}, func(c *cloud) {
			c.ask(lifecycle.ActionRequested{ID: "m1", Action: lifecycle.Live})
		}, lifecycle.Active, "a", 1},
		{"evacuation, and its host returns", two, dark, func(c *cloud) {
			c.agents.hide("a", true)
			c.ask(lifecycle.ActionRequested{ID: "m1", Action: lifecycle.Evacuate})
			c.until("it is evacuated", func() bool { s := c.one(); return s.State == lifecycle.Active && s.Host == "b" })
			// the source's is held until its agent says that it is free
			if a, b := c.usage("pf-a"), c.usage("pf-b"); a != 1 || b != 1 {
				c.t.Errorf("while the host is away: %d of a and %d of b are used", a, b)
			}
			c.agents.hide("a", false)
		}, lifecycle.Active, "b", 1},
		{"shelve and unshelve", two, nil, func(c *cloud) {
			c.ask(lifecycle.ActionRequested{ID: "w1", Action: lifecycle.Shelve})
			c.settle(lifecycle.Shelved)
			c.ask(lifecycle.ActionRequested{ID: "w2", Action: lifecycle.Unshelve})
		}, lifecycle.Active, "", 1},
		{"rebuild", two, nil, func(c *cloud) {
			c.ask(lifecycle.ActionRequested{ID: "w1", Action: lifecycle.Rebuild, Image: "another"})
		}, lifecycle.Active, "a", 1},
		{"stop, start, reboot", two, nil, func(c *cloud) {
			for i, a := range []lifecycle.Action{lifecycle.Stop, lifecycle.Start, lifecycle.Reboot} {
				c.ask(lifecycle.ActionRequested{ID: fmt.Sprint("w", i), Action: a})
				c.settle(lifecycle.Active)
			}
		}, lifecycle.Active, "a", 1},
		{"no host can build the resized server", two, func(c *cloud) {
			c.agents.fails = func(host string) string { return map[string]string{"b": "no hugepages"}[host] }
		}, func(c *cloud) {
			c.ask(larger("m1", 1))
		}, lifecycle.Active, "a", 1},
		{"delete while a resize is to be confirmed", two, nil, func(c *cloud) {
			c.ask(larger("m1", 2))
			c.settlePhase(lifecycle.Resized)
			c.remove()
		}, lifecycle.Deleted, "", 0},
		{"delete in the middle of a resize", two, nil, func(c *cloud) {
			c.ask(larger("m1", 2))
			c.remove()
		}, lifecycle.Deleted, "", 0},
		{"delete while the host is down, which dies", two, dark, func(c *cloud) {
			c.agents.hide("a", true)
			c.remove()
			c.until("somebody hears that a is dead", func() bool {
				return c.conductor().HostDown(context.Background(),
					"a") == nil
			})
			c.until("nothing is held", func() bool { return c.one().State == lifecycle.Deleted })
			c.agents.hide("a", false)
		}, lifecycle.Deleted, "", 0},
	}
}

// everyStory has those about spent devices, too.
func everyStory() []story { return append(stories(), spentStories()...) }

func here(e lifecycle.ActionRequested) lifecycle.ActionRequested {
	e.SameHost = true
	return e
}

// dark makes the agent of host a silent for compute, before it is asked for anything.
func dark(c *cloud) { c.old = true }

// hide lets the agent of a host do nothing, as if it were down.
func (a *agents) hide(host string, down bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.dark[host] = down
}

// settle waits until the server rests in a state.
func (c *cloud) settle(state lifecycle.State) {
	c.t.Helper()
	c.settled()
	if s := c.one(); s.State != state {
		c.t.Fatalf("the server is %s, not %s\n%s", s.State, state, c.trails())
	}
	c.until("the agents have done their part", c.quiet)
	c.whole(string(state))
}

// settlePhase waits until a move waits for a user.
func (c *cloud) settlePhase(phase lifecycle.MovePhase) {
	c.t.Helper()
	c.settle(lifecycle.Moving)
	if got := c.one().Phase(); got != phase {
		c.t.Fatalf("the move is %s, not %s\n%s", got, phase, c.trails())
	}
}

// quiet reports whether the agents have nothing left to say and have what the assignments say.
func (c *cloud) quiet() bool {
	c.agents.mu.Lock()
	defer c.agents.mu.Unlock()
	for _, list := range c.agents.unsaid {
		if len(list) > 0 {
			return false
		}
	}
	shall := 0
	for _, e := range c.one().Entries() {
		g := c.agents.guests[e.Host][e.Consumer]
		if g == nil || g.runs != (e.Power == lifecycle.On) || g.build != c.one().Builds {
			return false
		}
		shall++
	}
	for _, guests := range c.agents.guests {
		shall -= len(guests)
	}
	return shall == 0
}

// begin makes the world of a story, with the server on host a.
func (st story) begin(t *testing.T) *cloud {
	t.Helper()
	c := newCloud(t, st.hosts)
	if st.setup != nil {
		st.setup(c)
	}
	fails := c.agents.fails
	c.agents.fails = func(host string) string { return "" }
	if len(st.hosts) > 1 {
		c.ledger.hide("pf-b", true)
	}
	c.start(t.Context(), c.store, c.ledger)
	s := server("s")
	s.Requests[0].Requirement.LiveMigratable = pci.Yes
	if _, err := c.conductor().Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	c.settle(lifecycle.Active)
	c.stop()
	c.ledger.hide("pf-b", false)
	c.agents.mu.Lock()
	c.agents.fails = fails
	c.agents.mu.Unlock()
	if c.old {
		c.reportAt("a", time.Now().Add(-time.Hour))
	}
	return c
}

// end checks the world after a story, and deletes the server.
func (st story) end(c *cloud) {
	c.t.Helper()
	c.settle(st.state)
	s := c.one()
	held := 0
	for _, h := range c.ledger.held {
		for _, amounts := range h.Allocation {
			held += amounts[class]
		}
	}
	if st.host != "" && s.Host != st.host || held != st.holds || s.Fault != nil {
		c.t.Errorf("the server is on %q and %d devices are held; fault %+v\n%s", s.Host, held, s.Fault, c.trails())
	}
	c.again = func() {}
	if s.State != lifecycle.Deleted {
		c.remove()
		c.settle(lifecycle.Deleted)
	}
	if len(c.ledger.held) != 0 {
		c.t.Errorf("held in the end: %v", c.ledger.held)
	}
	for _, miss := range c.ledger.look() {
		c.t.Error(miss)
	}
}

// Every operation does what it shall when nothing goes wrong.
func TestStories(t *testing.T) {
	for _, st := range everyStory() {
		t.Run(st.name, func(t *testing.T) {
			t.Parallel()
			c := st.begin(t)
			c.start(t.Context(), c.store, c.ledger)
			st.tell(c)
			st.end(c)
		})
	}
}

// Each call of compute's to the database and to Placement fails once, in every operation, before its effect or with its
// answer lost.
func TestEveryOperationFailsAtEachCall(t *testing.T) {
	atEachCallOfEach(t, func(t *testing.T, st story, at int, late bool) bool {
		c := st.begin(t)
		tr := &trouble{fails: once(at, late)}
		c.start(t.Context(), troubledStore{c.store, tr}, troubledPlacement{c.ledger, tr})
		st.tell(c)
		c.settled()
		tr.rest()
		st.end(c)
		return tr.count() >= at
	})
}

// The process ends at each call of every operation, before or after its effect, and is started again: the world is
// whole.
func TestEveryOperationCrashesAtEachCall(t *testing.T) {
	atEachCallOfEach(t, func(t *testing.T, st story, at int, late bool) bool {
		c := st.begin(t)
		ctx, end := context.WithCancel(t.Context())
		defer end()
		tr := &trouble{fails: crash(at, late, end)}
		c.start(ctx, troubledStore{c.store, tr}, troubledPlacement{c.ledger, tr})
		crashed := false
		c.again = func() {
			if ctx.Err() != nil && !crashed {
				crashed = true
				c.stop()
				c.start(t.Context(), c.store, c.ledger)
			}
		}
		st.tell(c)
		c.settled()
		tr.rest()
		c.until("the crash has been seen", func() bool { return ctx.Err() == nil || crashed })
		st.end(c)
		return crashed
	})
}

// stride is the distance between the calls at which a story is troubled. The race detector makes each many times
// slower.
func stride() int {
	switch {
	case testing.Short():
		return 32
	case racing:
		return 8
	}
	return 1
}

// atEachCallOfEach plays every story once for each call in it, until no call is left to be troubled.
func atEachCallOfEach(t *testing.T, live func(t *testing.T, st story, at int, late bool) bool) {
	for _, st := range everyStory() {
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
					t.Run(fmt.Sprintf("call %d late %v", at, late), func(t *testing.T) { reached = live(t, st, at, late) })
				}
				if at < 2 {
					t.Errorf("late %v: only %d calls: the story shows nothing", late, at-1)
				}
			}
		})
	}
}

// Of several providers on the destination, exactly the one that Placement chose serves the server; also after a resize.
func TestM1TheChosenProviderServes(t *testing.T) {
	for _, taken := range []provider.ID{"pf-b", "qf-b"} {
		st := story{hosts: map[string]int{"a": 1, "b": 2}}
		c := st.begin(t)
		c.agents.mu.Lock()
		c.agents.devices["b"] = append(c.agents.devices["b"], "0000:3c:00.0", "0000:3c:00.1")
		c.agents.mu.Unlock()
		c.ledger.second("b", 2)
		c.report("b")
		for i := range 2 {
			c.others.Store(true)
			other := resource.ConsumerID(fmt.Sprint("other", i))
			if err := c.ledger.PutAllocation(t.Context(), other, held(taken)); err != nil {
				t.Fatal(err)
			}
		}
		c.start(t.Context(), c.store, c.ledger)
		c.ask(larger("m1", 2))
		c.settled()
		want := map[provider.ID]provider.ID{"pf-b": "qf-b", "qf-b": "pf-b"}[taken]
		s := c.one()
		if s.Phase() != lifecycle.Resized || slices.ContainsFunc(s.Devices,
			func(d schedule.Picked) bool { return d.Provider != want }) ||
			!slices.Equal(s.Requests[0].Providers, []provider.ID{want, want}) {
			t.Errorf("%s: %v of %v\n%s", s.State, s.Devices, s.Requests, c.trails())
		}
		for i := range 2 {
			_ = c.ledger.DeleteAllocation(t.Context(), resource.ConsumerID(fmt.Sprint("other", i)))
		}
		c.whole("resized")
	}
}

// While a resize waits to be confirmed, the migration holds the source's devices and the server the destination's.
func TestWhoHoldsWhatWhileAMoveWaits(t *testing.T) {
	c := story{hosts: map[string]int{"a": 1, "b": 2}}.begin(t)
	c.start(t.Context(), c.store, c.ledger)
	before := c.one().Devices
	c.ask(larger("m1", 2))
	c.settlePhase(lifecycle.Resized)
	s := c.one()
	if c.ledger.held["m1"].Allocation["pf-a"][class] != 1 || c.ledger.held["m1"].ConsumerType != "MIGRATION" ||
		c.ledger.held["s"].Allocation["pf-b"][class] != 2 {
		t.Errorf("%+v", c.ledger.held)
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

// What is asked for in a state that does not allow it is refused in the API's sentence; so is what the devices or the
// host forbid.
func TestRefusedWishes(t *testing.T) {
	c := story{hosts: map[string]int{"a": 1, "b": 1}}.begin(t)
	c.start(t.Context(), c.store, c.ledger)
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

// A resize asks the new flavor's question, whether it wants fewer devices, none, or some where there were none; where
// nothing fits, nothing has changed and the server has never stopped.
func TestResizeAsksTheNewQuestion(t *testing.T) {
	c := story{hosts: map[string]int{"a": 1, "b": 1}}.begin(t)
	c.start(t.Context(), c.store, c.ledger)
	c.ask(larger("m0", 2)) // no host has two
	c.settle(lifecycle.Active)
	if s := c.one(); s.Host != "a" || s.Migration.Status != "error" || !strings.Contains(c.trails(),
		"No valid host was found: all devices are taken. It goes back to a.") ||
		strings.Contains(c.trails(), "has stopped") {
		t.Error(c.trails())
	}
	for n, move := range []struct {
		devices int
		host    string
	}{{1, "b"}, {0, "a"}, {1, "b"}} {
		id := fmt.Sprint("m", n+1)
		wish := larger(id, move.devices)
		wish.To = move.host
		c.ask(wish)
		c.settlePhase(lifecycle.Resized)
		c.ask(lifecycle.ActionRequested{ID: "w" + id, Action: lifecycle.Confirm})
		c.settle(lifecycle.Active)
		if s := c.one(); s.Host != move.host || len(s.Devices) != move.devices || s.Flavor.ID != "f-"+id {
			t.Errorf("%s: on %s with %v", id, s.Host, s.Devices)
		}
	}
}

// A host that is silent: the deletion is seen at once, what the server holds is held until the agent says gone (delete
// while the host is down), and `why` tells it.
func TestDeleteWhileTheHostIsDown(t *testing.T) {
	st := story{hosts: map[string]int{"a": 1}, setup: dark}
	c := st.begin(t)
	c.start(t.Context(), c.store, c.ledger)
	c.agents.hide("a", true)
	c.remove()
	s := c.one()
	if s.Status() != "DELETED" || s.TaskState() != "deleting" || len(c.ledger.held) != 1 {
		t.Errorf("%s %s, held %v", s.Status(), s.TaskState(), c.ledger.held)
	}
	if err := c.conductor().Delete(t.Context(), "s"); !fault.Is(err, fault.NotFound) {
		t.Errorf("deleted twice: %v", err)
	}
	if err := c.store.Purge(t.Context(), time.Now().Add(time.Hour), 0); err != nil {
		t.Fatal(err)
	}
	if c.one().State != lifecycle.DeletingGuest { // it is not forgotten as long as it holds something
		t.Error(c.trails())
	}
	c.agents.hide("a", false)
	c.settle(lifecycle.Deleted)
}

// A server cannot come back to a host where it has left something that is not gone.
func TestNothingComesToWhereItsRemainsAre(t *testing.T) {
	st := story{hosts: map[string]int{"a": 2, "b": 1}, setup: dark}
	c := st.begin(t)
	c.start(t.Context(), c.store, c.ledger)
	c.agents.hide("a", true)
	c.ask(lifecycle.ActionRequested{ID: "m1", Action: lifecycle.Evacuate})
	c.until("it is evacuated", func() bool {
		s := c.one()
		return s.State == lifecycle.Active && s.Host == "b" &&
			s.TaskState() == ""
	})
	c.report("a")
	c.ask(lifecycle.ActionRequested{ID: "m2", Action: lifecycle.Migrate})
	c.until("it is given up", func() bool {
		s := c.one()
		return s.Migration.ID == "m2" && s.Migration.Status == "error" && s.TaskState() == ""
	})
	if !strings.Contains(c.trails(), "an earlier guest of the server there is not gone yet") {
		t.Error(c.trails())
	}
	c.agents.hide("a", false)
	c.settle(lifecycle.Active)
	c.ask(lifecycle.ActionRequested{ID: "m3", Action: lifecycle.Migrate})
	c.settlePhase(lifecycle.Resized)
}

// Servers of one request are built together or not at all, each on devices of its own.
func TestP13MusterOrNone(t *testing.T) {
	for room, built := range map[int]int{3: 3, 2: 0} {
		c := newCloud(t, map[string]int{"a": room})
		c.start(t.Context(), c.store, c.ledger)
		var list []lifecycle.Server
		for i := range 3 {
			s := server(fmt.Sprintf("aaaaaaaa-bbbb-%d", i))
			s.MinCount = 3
			list = append(list, s)
		}
		if _, err := c.conductor().Create(t.Context(), list...); err != nil {
			t.Fatal(err)
		}
		c.settled()
		c.whole("mustered")
		if c.count(lifecycle.Active) != built {
			t.Errorf("room for %d: %d active\n%s", room, c.count(lifecycle.Active), c.trails())
		}
		for _, s := range c.servers() {
			if s.State == lifecycle.Error && s.Fault.Message == "" {
				t.Errorf("%s: no sentence", s.ID)
			}
		}
	}
}

func held(by provider.ID) placement.ConsumerAllocation {
	return placement.ConsumerAllocation{Allocation: resource.Allocation{by: {class: 1}}}
}

func storeFilter(server string) store.MigrationFilter { return store.MigrationFilter{Server: server} }

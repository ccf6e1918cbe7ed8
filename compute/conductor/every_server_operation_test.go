package conductor

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/placement/placementtest"
)

// larger returns the request for a resize to n devices.
func larger(id string, n int) lifecycle.ActionRequested {
	specs := map[string]string{}
	if n > 0 {
		specs["pci_passthrough:alias"] = fmt.Sprintf("nic:%d", n)
	}
	return lifecycle.ActionRequested{ID: id, Action: lifecycle.Resize,
		Flavor: flavor.Flavor{ID: "f-" + id, VCPUs: 1, ExtraSpecs: specs}}
}

func here(e lifecycle.ActionRequested) lifecycle.ActionRequested {
	e.SameHost = true
	return e
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

// longRunning makes each conductor run for an hour already, so that the silent agent of host a counts as dead.
func longRunning(c *cloud) { c.longRunning = true }

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
		{"shelve and unshelve a server with a disk", two, withDisks, func(c *cloud) {
			c.giveDisk()
			c.act(lifecycle.ActionRequested{ID: "i1", Action: lifecycle.Shelve})
			c.settle(lifecycle.Shelved)
			if !c.images.hasData("i1") {
				c.t.Errorf("the server is shelved without its disk")
			}
			c.act(lifecycle.ActionRequested{ID: "w2", Action: lifecycle.Unshelve})
		}, lifecycle.Active, "", 1},
		{"shelve a server whose disk cannot be uploaded", two, func(c *cloud) {
			withDisks(c)
			c.images.refusal = "the disk is full"
		}, func(c *cloud) {
			c.giveDisk()
			c.act(lifecycle.ActionRequested{ID: "i1", Action: lifecycle.Shelve})
			c.waitFor("the shelving is given up", func() bool { return c.server().Refusal != nil })
		}, lifecycle.Active, "a", 1},
		{"delete a shelved server", two, withDisks, func(c *cloud) {
			c.giveDisk()
			c.act(lifecycle.ActionRequested{ID: "i1", Action: lifecycle.Shelve})
			c.settle(lifecycle.Shelved)
			c.deleteServer()
		}, lifecycle.Deleted, "", 0},
		{"delete while the disk is uploaded", two, withDisks, func(c *cloud) {
			c.giveDisk()
			c.act(lifecycle.ActionRequested{ID: "i1", Action: lifecycle.Shelve})
			c.deleteServer()
		}, lifecycle.Deleted, "", 0},
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

// spentOperations returns operations on a server whose device for one-time use is spent.
func spentOperations() []operation {
	two := map[string]int{"a": 1, "b": 2}
	return []operation{
		{"cold migration with a spent device, confirmed", two, nil, func(c *cloud) {
			c.spend("a")
			c.act(lifecycle.ActionRequested{ID: "m1", Action: lifecycle.Migrate})
			c.settlePhase(lifecycle.Resized)
			c.act(lifecycle.ActionRequested{ID: "w1", Action: lifecycle.Confirm})
		}, lifecycle.Active, "b", 1},
		{"resize, reverted, of a server whose device is reserved meanwhile", two, nil, func(c *cloud) {
			c.act(larger("m1", 2))
			c.settlePhase(lifecycle.Resized)
			c.spend("a")
			c.act(lifecycle.ActionRequested{ID: "w1", Action: lifecycle.Revert})
		}, lifecycle.Active, "a", 1},
		{"no host can build the resized server, whose device is spent", two, func(c *cloud) {
			c.agents.fails = func(host string) string { return map[string]string{"b": "no hugepages"}[host] }
		}, func(c *cloud) {
			c.spend("a")
			c.act(larger("m1", 1))
		}, lifecycle.Active, "a", 1},
		{"evacuation with a spent device, and its host returns", two, longRunning, func(c *cloud) {
			c.spend("a")
			c.agents.pause("a", true)
			c.act(lifecycle.ActionRequested{ID: "m1", Action: lifecycle.Evacuate})
			c.waitFor("it is evacuated", func() bool { s := c.server(); return s.State == lifecycle.Active && s.Host == "b" })
			c.agents.pause("a", false)
		}, lifecycle.Active, "b", 1},
		{"shelve and unshelve with a spent device", two, nil, func(c *cloud) {
			c.spend("a")
			c.act(lifecycle.ActionRequested{ID: "w1", Action: lifecycle.Shelve})
			c.settle(lifecycle.Shelved)
			c.act(lifecycle.ActionRequested{ID: "w2", Action: lifecycle.Unshelve})
		}, lifecycle.Active, "b", 1},
	}
}

// allOperations returns all operations, also those with spent devices.
func allOperations() []operation { return append(operations(), spentOperations()...) }

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
	if left := c.images.ids(); len(left) > 0 {
		c.t.Errorf("the image service still has %v\n%s", left, c.histories())
	}
}

// A Placement that accepts a transfer on a provider over its capacity, as Berth's does, needs no added room.
func TestNoAddedRoomForATransferThatPlacementAccepts(t *testing.T) {
	for _, st := range spentOperations() {
		t.Run(st.name, func(t *testing.T) {
			t.Parallel()
			c := st.prepare(t)
			c.placement.AcceptOverCapacity()
			c.start(t.Context(), c.store, c.client(func(call placementtest.Call) (before, after error) {
				if call.Op == "Reshape" {
					c.t.Errorf("a transfer adds room: %v", call)
				}
				return nil, nil
			}))
			st.run(c)
			st.finish(c)
		})
	}
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

package conductor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// spend makes the devices of a host spent: what there is of its provider is reserved, as its agent does when the guest
// has started.
func (l *ledger) spend(host string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	pf := provider.ID("pf-" + host)
	l.reserved[pf] = l.capacity[pf]
	l.spent[pf] = l.capacity[pf]
}

// look is the agent's: the totals become those of the devices that there are. Nobody who looked before it could have
// had more.
func (l *ledger) look() (misses []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.Copy(l.capacity, l.spent)
	return l.misses
}

// room holds against each write that of what is spent nobody but its holder can have anything.
func (l *ledger) room(after string) {
	for pf, devices := range l.spent {
		used := l.used(pf)
		if free := l.capacity[pf] - l.reserved[pf] - used; used > devices || used > 0 && free > 0 ||
			l.reserved[pf] != devices {
			l.misses = append(l.misses, fmt.Sprintf("after %s: %s has %d, %d reserved, %d used, and %d devices, all spent",
				after, pf, l.capacity[pf], l.reserved[pf], used, devices))
		}
	}
}

func (l *ledger) Inventories(_ context.Context, id provider.ID) (placement.InventorySet, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	inv := resource.Whole(l.capacity[id])
	inv.Reserved = l.reserved[id]
	return placement.InventorySet{Generation: l.written[id], Inventories: map[resource.Class]resource.Inventory{
		class: inv}}, nil
}

func (l *ledger) Usages(_ context.Context, id provider.ID) (resource.Amounts, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return resource.Amounts{class: l.used(id)}, nil
}

func (l *ledger) stock(id provider.ID, generation int, all map[resource.Class]resource.Inventory) error {
	if l.written[id] != generation {
		return moved()
	}
	l.written[id]++
	l.capacity[id], l.reserved[id] = all[class].Total, all[class].Reserved
	return nil
}

func (l *ledger) PutInventories(_ context.Context, id provider.ID, generation int,
	all map[resource.Class]resource.Inventory) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.stock(id, generation, all)
	l.room("PutInventories")
	return l.written[id], err
}

func (l *ledger) Reshape(_ context.Context, r placement.Reshape) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.deny {
		return fault.New(fault.Conflict, "", "the provider is not what it was").WithCode(placement.CodeUndefined)
	}
	capacity, reserved := maps.Clone(l.capacity), maps.Clone(l.reserved)
	for id, stock := range r.Inventories {
		if err := l.stock(id, stock.Generation, stock.Inventories); err != nil {
			return err
		}
	}
	err := l.writeAll(r.Allocations)
	if err != nil {
		l.capacity, l.reserved = capacity, reserved
	}
	l.room("Reshape")
	return err
}

// spentStories are those of servers whose device for one-time use is spent.
func spentStories() []story {
	two := map[string]int{"a": 1, "b": 2}
	return []story{
		{"cold migration with a spent device, confirmed", two, nil, func(c *cloud) {
			c.ledger.spend("a")
			c.ask(lifecycle.ActionRequested{ID: "m1", Action: lifecycle.Migrate})
			c.settlePhase(lifecycle.Resized)
			c.ask(lifecycle.ActionRequested{ID: "w1", Action: lifecycle.Confirm})
		}, lifecycle.Active, "b", 1},
		{"resize, reverted, of a server whose device is reserved meanwhile", two, nil, func(c *cloud) {
			c.ask(larger("m1", 2))
			c.settlePhase(lifecycle.Resized)
			c.ledger.spend("a")
			c.ask(lifecycle.ActionRequested{ID: "w1", Action: lifecycle.Revert})
		}, lifecycle.Active, "a", 1},
		{"no host can build the resized server, whose device is spent", two, func(c *cloud) {
			c.agents.fails = func(host string) string { return map[string]string{"b": "no hugepages"}[host] }
		}, func(c *cloud) {
			c.ledger.spend("a")
			c.ask(larger("m1", 1))
		}, lifecycle.Active, "a", 1},
		{"evacuation with a spent device, and its host returns", two, dark, func(c *cloud) {
			c.ledger.spend("a")
			c.agents.hide("a", true)
			c.ask(lifecycle.ActionRequested{ID: "m1", Action: lifecycle.Evacuate})
			c.until("it is evacuated", func() bool { s := c.one(); return s.State == lifecycle.Active && s.Host == "b" })
			c.agents.hide("a", false)
		}, lifecycle.Active, "b", 1},
		{"shelve and unshelve with a spent device", two, nil, func(c *cloud) {
			c.ledger.spend("a")
			c.ask(lifecycle.ActionRequested{ID: "w1", Action: lifecycle.Shelve})
			c.settle(lifecycle.Shelved)
			c.ask(lifecycle.ActionRequested{ID: "w2", Action: lifecycle.Unshelve})
		}, lifecycle.Active, "b", 1},
	}
}

// What Placement refuses for good on the way back has an end, which says what to do; then it goes on, or the server is
// deleted.
func TestTheWayBackThatIsRefused(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		st := story{hosts: map[string]int{"a": 1, "b": 2}}
		c := st.begin(t)
		c.start(t.Context(), c.store, c.ledger)
		c.ask(larger("m1", 2))
		c.settlePhase(lifecycle.Resized)
		c.ledger.spend("a")
		c.ledger.mu.Lock()
		c.ledger.deny = true
		c.ledger.mu.Unlock()
		c.ask(lifecycle.ActionRequested{ID: "w1", Action: lifecycle.Revert})
		c.until("it is given up", func() bool { return c.one().Phase() == lifecycle.RevertBlocked })
		s := c.one()
		if s.Status() != "ERROR" || s.TaskState() != "" || !strings.Contains(s.Fault.Message, "migration m1") ||
			!strings.Contains(s.Fault.Message, "reset the server's state") {
			t.Errorf("%s %s %+v", s.Status(), s.TaskState(), s.Fault)
		}
		c.until("the guest runs again, under the migration's name", c.quiet)
		c.whole("stranded")
		if i := slices.IndexFunc(s.History,
			func(m lifecycle.HistoryEntry) bool { return m.Times == lifecycle.MaxRefusals }); i < 0 {
			t.Errorf("%s", c.trails())
		}
		if deleted {
			c.remove()
			c.settle(lifecycle.Deleted)
			continue
		}
		c.ledger.mu.Lock()
		c.ledger.deny = false
		c.ledger.mu.Unlock()
		c.ask(lifecycle.ActionRequested{ID: "w2", Action: lifecycle.Reset})
		c.settle(lifecycle.Active)
		if s := c.one(); s.Host != "a" || s.Fault != nil || s.Status() != "ACTIVE" {
			t.Errorf("%s on %s, %+v", s.Status(), s.Host, s.Fault)
		}
	}
}

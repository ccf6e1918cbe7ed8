package conductor

import (
	"fmt"
	"slices"
	"testing"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

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

func storeFilter(server string) store.MigrationFilter { return store.MigrationFilter{Server: server} }

package conductor

import (
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
)

// No server is scheduled to a disabled host; the reason is in the failure.
func TestDisabledHostIsNotChosen(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 4, "b": 1})
	c.start(t.Context(), c.store, c.client(nil))
	if err := c.store.DisableHost(t.Context(), "a", "new fans", time.Now()); err != nil {
		t.Fatal(err)
	}
	c.create("one", "two")
	c.waitSettled()
	placed, refused := 0, 0
	for _, s := range c.servers() {
		switch {
		case s.State == lifecycle.Active && s.Host == "b":
			placed++
		case s.Fault != nil && strings.Contains(s.Fault.Message, "an operator has disabled it: new fans"):
			refused++
		}
	}
	if placed != 1 || refused != 1 {
		t.Errorf("%d on b, %d refused\n%s", placed, refused, c.histories())
	}
}

// A plan moves as many servers as the other hosts have room for, and changes nothing.
func TestPlanDrain(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 3, "b": 2})
	c.start(t.Context(), c.store, c.client(nil))
	if err := c.store.DisableHost(t.Context(), "b", "", time.Now()); err != nil {
		t.Fatal(err)
	}
	c.create("one", "two", "three")
	c.waitSettled()
	if err := c.store.EnableHost(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	before := c.allocations() + c.histories()
	plan, err := c.conductor().Scheduler.PlanDrain(t.Context(), "a", nil)
	if err != nil || len(plan) != 3 {
		t.Fatalf("%v %v\n%s", plan, err, c.histories())
	}
	moved := 0
	for _, p := range plan {
		if p.To == "b" && p.Action == lifecycle.Migrate && strings.Contains(p.Reason, "live-migratable") {
			moved++
		} else if p.To != "" || p.Action != "" || !strings.Contains(p.Reason, "promised to another server") {
			t.Errorf("%+v", p)
		}
	}
	one, err := c.conductor().Scheduler.PlanDrain(t.Context(), "a",
		func(s lifecycle.Server) bool { return s.ID == plan[2].Server })
	if err != nil || len(one) != 1 || one[0].Server != plan[2].Server || one[0].To != "b" {
		t.Errorf("only %s: %+v, %v", plan[2].Name, one, err)
	}
	if moved != 2 || c.allocations()+c.histories() != before {
		t.Errorf("%d moves: %+v", moved, plan)
	}
}

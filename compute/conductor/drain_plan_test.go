package conductor

import (
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/pci"
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
	plan, err := c.conductor().PlanDrain(t.Context(), "a")
	if err != nil || len(plan) != 3 {
		t.Fatalf("%v %v\n%s", plan, err, c.histories())
	}
	moved := 0
	for _, p := range plan {
		if p.To == "b" && p.Action == lifecycle.Migrate && strings.Contains(p.Reason, "live-migratable") {
			moved++
		} else if p.To != "" || p.Action != "" || !strings.Contains(p.Reason, "take the room") {
			t.Errorf("%+v", p)
		}
	}
	if moved != 2 || c.allocations()+c.histories() != before {
		t.Errorf("%d moves: %+v", moved, plan)
	}
}

// A drain migrates a server live exactly if the Compute API accepts that; otherwise the plan has the API's reason.
func TestDrainActionFollowsTheAPI(t *testing.T) {
	const port = "11111111-0000-4000-8000-000000000001"
	direct := pci.Request{ID: "R", Count: 1, Port: &pci.PortNeeds{ID: port}}
	gpu := pci.Request{ID: "A", Alias: "gpu", Count: 1}
	migratable := pci.Request{ID: "M", Alias: "m", Count: 1, Requirement: pci.Requirement{LiveMigratable: pci.Yes}}
	base := lifecycle.Server{ID: "s", State: lifecycle.Active, Host: "a"}
	for name, test := range map[string]struct {
		change func(*lifecycle.Server)
		want   lifecycle.Action
		why    string
	}{
		"no devices": {func(*lifecycle.Server) {}, lifecycle.Live, ""},
		"a device of a port": {func(s *lifecycle.Server) { s.Requests = []pci.Request{direct} }, lifecycle.Live,
			"without the devices of its ports " + port},
		"a live-migratable device": {func(s *lifecycle.Server) { s.Requests = []pci.Request{migratable} },
			lifecycle.Live, ""},
		"another device": {func(s *lifecycle.Server) { s.Requests = []pci.Request{direct, gpu} }, lifecycle.Migrate,
			"alias gpu are not explicitly requested as live-migratable"},
		"an I/O slot": {func(s *lifecycle.Server) { s.Devices = []schedule.Picked{{Address: "21010020"}} },
			lifecycle.Migrate, "physical I/O slots"},
		"stopped": {func(s *lifecycle.Server) { s.Stopped, s.Requests = true, []pci.Request{direct} }, lifecycle.Migrate,
			"vm_state stopped"},
		"a change of its ports": {func(s *lifecycle.Server) { s.PortChange = &lifecycle.PortChange{ID: "c"} }, "",
			"while its ports are being changed"},
	} {
		s := base
		test.change(&s)
		action, why := drainAction(s, "a")
		if action != test.want || !strings.Contains(why, test.why) || test.why == "" && why != "" {
			t.Errorf("%s: %q, %q", name, action, why)
		}
		accepted := s.Refuse(lifecycle.Live, false) == "" && whyNotLive(s) == ""
		if accepted != (action == lifecycle.Live) {
			t.Errorf("%s: the API accepts a live migration: %t, planned %q", name, accepted, action)
		}
	}
}

package conductor

import (
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/placement/placementtest"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// describe changes the report of every host.
func (c *cloud) describe(how func(*schedule.Host)) {
	c.t.Helper()
	for name := range c.agents.devices {
		h, err := c.store.Host(c.t.Context(), name)
		if err != nil {
			c.t.Fatal(err)
		}
		how(&h)
		c.put(h)
	}
}

// make creates the server s, waits until its state is final, and returns it.
func (c *cloud) make(s lifecycle.Server) lifecycle.Server {
	c.t.Helper()
	if _, err := c.conductor().Create(c.t.Context(), s); err != nil {
		c.t.Fatal(err)
	}
	c.waitSettled()
	return c.server()
}

// A server whose devices are not explicitly live-migratable is not migrated live, although another host has a device
// for it. Nova answers 500 after it has scheduled; Berth refuses the request with a reason and changes nothing.
func TestLiveMigrationIsRefused(t *testing.T) {
	for row, flag := range map[string]pci.Flag{"nothing is said of it": pci.Unset, "alias and device say no": pci.No} {
		t.Run(row, func(t *testing.T) {
			c := newCloud(t, map[string]int{"a": 1, "b": 1})
			c.describe(func(h *schedule.Host) { h.Devices[0].LiveMigratable = flag })
			c.hide("pf-b")
			c.start(t.Context(), c.store, c.client(nil))
			s := server("s")
			s.Requests[0].Requirement.LiveMigratable = flag
			before := c.make(s)
			c.settle(lifecycle.Active)
			c.unhide("pf-b")
			_, err := c.conductor().Act(t.Context(), "s", lifecycle.ActionRequested{ID: "m1", Action: lifecycle.Live})
			if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(),
				"alias nic are not explicitly requested as live-migratable") {
				t.Errorf("%v", err)
			}
			c.settle(lifecycle.Active)
			after := c.server()
			if after.Host != "a" || after.Migration != nil || after.Fault != nil || !slices.Equal(after.Devices,
				before.Devices) {
				t.Errorf("on %s with %v, migration %+v\n%s", after.Host, after.Devices, after.Migration, c.histories())
			}
			if a, b := c.usage("pf-a"), c.usage("pf-b"); a != 1 || b != 0 {
				t.Errorf("used: %d of a, %d of b", a, b)
			}
		})
	}
}

// If Placement has the class but no device is of the requested product, the server fails with a reason and has no
// allocation.
func TestDeviceOfAnotherProduct(t *testing.T) {
	for product, state := range map[string]lifecycle.State{"1515": lifecycle.Active, "1516": lifecycle.Error} {
		c := newCloud(t, map[string]int{"a": 1})
		c.describe(func(h *schedule.Host) { h.Devices[0].Vendor, h.Devices[0].Product = "8086", "1515" })
		c.start(t.Context(), c.store, c.client(nil))
		s := server("s")
		s.Requests[0].Requirement.Vendor, s.Requests[0].Requirement.Product = "8086", product
		if s = c.make(s); s.State != state {
			t.Errorf("%s: %s\n%s", product, s.State, c.histories())
		}
		if s.State == lifecycle.Error && (!strings.Contains(s.Fault.Message, "product is 1515, not 1516") ||
			c.usage("pf-a") != 0) {
			t.Errorf("%+v, %d held", s.Fault, c.usage("pf-a"))
		}
		c.checkConsistent(product)
	}
}

// A server with devices of two aliases is migrated live, and each request has its device there.
func TestLiveMigrationWithTwoAliases(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 2, "b": 2})
	c.hide("pf-b")
	c.start(t.Context(), c.store, c.client(nil))
	s := server("s")
	s.Requests = append(s.Requests, pci.Request{ID: "Q-s", Alias: "crypto", Count: 1,
		Requirement: pci.Requirement{Class: class}})
	s.Ask.Groups = append(s.Ask.Groups, resource.Group{Suffix: s.Requests[1].GroupSuffix(0),
		Resources: resource.Amounts{class: 1}})
	s.Ask.GroupPolicy = resource.PolicyNone
	for i := range s.Requests {
		s.Requests[i].Requirement.LiveMigratable = pci.Yes
	}
	c.make(s)
	c.settle(lifecycle.Active)
	c.unhide("pf-b")
	c.act(lifecycle.ActionRequested{ID: "m1", Action: lifecycle.Live})
	c.settle(lifecycle.Active)
	now := c.server()
	served := map[string]provider.ID{}
	for _, d := range now.Devices {
		served[d.RequestID] = d.Provider
	}
	if now.Host != "b" || len(now.Devices) != 2 || served["R-s"] != "pf-b" || served["Q-s"] != "pf-b" {
		t.Errorf("on %s with %+v\n%s", now.Host, now.Devices, c.histories())
	}
	if a, b := c.usage("pf-a"), c.usage("pf-b"); a != 0 || b != 2 {
		t.Errorf("used: %d of a, %d of b", a, b)
	}
}

// Without device groups in Placement (pci_in_placement off), a server with a PF that fails on one host requests one
// device again from the next host, and gets one.
func TestRescheduledWithoutGroups(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 1, "b": 1})
	c.describe(func(h *schedule.Host) { h.InPlacement, h.Devices[0].Type = false, pci.Physical })
	first, asked := "", map[string]int{} // devices, by host
	c.agents.fails = func(host string) string {
		line, err := c.store.Assignments(t.Context(), host)
		if err != nil || len(line.Entries) != 1 {
			t.Errorf("%+v %v", line, err)
			return "no assignment"
		}
		asked[host] = 0
		for _, r := range line.Entries[0].Requests {
			asked[host] += r.Count
		}
		if first == "" {
			first = host
		}
		if host == first {
			return "the card does not answer"
		}
		return ""
	}
	c.start(t.Context(), c.store, c.client(nil))
	s := server("s")
	s.Requests[0].Requirement.Type = pci.Physical
	s.Ask.Groups = []resource.Group{{Resources: resource.Amounts{"VCPU": 1}}}
	s = c.make(s)
	c.waitFor("the agents have reported", c.agentsDone)
	c.agents.mu.Lock()
	defer c.agents.mu.Unlock()
	if s.State != lifecycle.Active || s.Host == first || len(s.Devices) != 1 || !strings.Contains(c.histories(),
		"the card does not answer") {
		t.Errorf("%s on %s with %v, first was %s\n%s", s.State, s.Host, s.Devices, first, c.histories())
	}
	if len(asked) != 2 || asked["a"] != 1 || asked["b"] != 1 || len(c.agents.guests[first]) != 0 {
		t.Errorf("asked for %v, left on %s: %v", asked, first, c.agents.guests[first])
	}
	if g := c.agents.guests[s.Host]["s"]; g == nil || !slices.Equal(g.devices, s.Devices) {
		t.Errorf("the guest has %+v, the record says %v", g, s.Devices)
	}
}

// A shelved server has no allocation. It is unshelved on another host if its own has no free device.
func TestUnshelvedOnAnotherHost(t *testing.T) {
	c := operation{hosts: map[string]int{"a": 1, "b": 1}}.prepare(t)
	c.start(t.Context(), c.store, c.client(nil))
	c.act(lifecycle.ActionRequested{ID: "w1", Action: lifecycle.Shelve})
	c.settle(lifecycle.Shelved)
	if a, b := c.usage("pf-a"), c.usage("pf-b"); a != 0 || b != 0 || len(c.server().Devices) != 0 {
		t.Errorf("shelved: %d of a, %d of b, %v", a, b, c.server().Devices)
	}
	c.hide("pf-a")
	c.act(lifecycle.ActionRequested{ID: "w2", Action: lifecycle.Unshelve})
	c.settle(lifecycle.Active)
	if s, a, b := c.server(), c.usage("pf-a"), c.usage("pf-b"); s.Host != "b" || a != 0 || b != 1 || len(s.Devices) != 1 ||
		s.Devices[0].Provider != "pf-b" {
		t.Errorf("on %s with %v: %d of a, %d of b\n%s", s.Host, s.Devices, a, b, c.histories())
	}
}

// After a resize the server has new requests. Unshelve and live migration use them.
func TestMovesAfterAResize(t *testing.T) {
	c := operation{hosts: map[string]int{"a": 2, "b": 2}}.prepare(t)
	c.start(t.Context(), c.store, c.client(nil))
	c.act(larger("m1", 2))
	c.settlePhase(lifecycle.Resized)
	c.act(lifecycle.ActionRequested{ID: "w1", Action: lifecycle.Confirm})
	c.settle(lifecycle.Active)
	c.act(lifecycle.ActionRequested{ID: "w2", Action: lifecycle.Shelve})
	c.settle(lifecycle.Shelved)
	c.hide("pf-b")
	c.act(lifecycle.ActionRequested{ID: "w3", Action: lifecycle.Unshelve})
	c.settle(lifecycle.Active)
	c.unhide("pf-b")
	where := func(host string, on provider.ID) {
		t.Helper()
		s := c.server()
		if s.Host != host || len(s.Devices) != 2 || len(s.Requests) != 1 || !slices.Equal(s.Requests[0].Providers,
			[]provider.ID{on, on}) {
			t.Errorf("on %s with %v for %+v\n%s", s.Host, s.Devices, s.Requests, c.histories())
		}
		for _, d := range s.Devices {
			if d.RequestID != s.Requests[0].ID || d.Provider != on {
				t.Errorf("%+v serves not %s on %s", d, s.Requests[0].ID, on)
			}
		}
	}
	where("a", "pf-a")
	c.act(lifecycle.ActionRequested{ID: "m2", Action: lifecycle.Live})
	c.settle(lifecycle.Active)
	where("b", "pf-b")
}

// A server is not migrated live to a host whose devices are not live-migratable.
func TestLiveMigrationWithoutMigratableDestination(t *testing.T) {
	for _, flag := range []pci.Flag{pci.No, pci.Unset} {
		c := operation{hosts: map[string]int{"a": 1, "b": 1}}.prepare(t)
		c.describe(func(h *schedule.Host) {
			if h.Name == "b" {
				h.Devices[0].LiveMigratable = flag
			}
		})
		c.start(t.Context(), c.store, c.client(nil))
		c.act(lifecycle.ActionRequested{ID: "m1", Action: lifecycle.Live})
		c.settle(lifecycle.Active)
		if s, a, b := c.server(), c.usage("pf-a"), c.usage("pf-b"); s.Host != "a" || s.Migration.Status != "error" ||
			a != 1 ||
			b != 0 ||
			!strings.Contains(c.histories(), "live_migratable") {
			t.Errorf("%q: on %s, migration %+v, %d of a, %d of b\n%s", flag, s.Host, s.Migration, a, b, c.histories())
		}
	}
}

// A server with two of the three devices of a host gets two devices on the destination.
func TestLiveMigrationWithTwoOfThreeDevices(t *testing.T) {
	c := operation{hosts: map[string]int{"a": 3, "b": 3}}.prepare(t)
	c.start(t.Context(), c.store, c.client(nil))
	c.act(here(larger("m1", 2)))
	c.settlePhase(lifecycle.Resized)
	c.act(lifecycle.ActionRequested{ID: "w1", Action: lifecycle.Confirm})
	c.settle(lifecycle.Active)
	from := c.server().Host
	to := map[string]string{"a": "b", "b": "a"}[from]
	c.act(lifecycle.ActionRequested{ID: "m2", Action: lifecycle.Live, To: to})
	c.settle(lifecycle.Active)
	if s, gone, used := c.server(), c.usage(provider.ID("pf-"+from)), c.usage(provider.ID("pf-"+to)); s.Host != to ||
		len(s.Devices) != 2 || gone != 0 || used != 2 {
		t.Errorf("on %s with %v: %d of %s, %d of %s\n%s", s.Host, s.Devices, gone, from, used, to, c.histories())
	}
}

// A server with two devices is resized to one, where the other host has two and where it has one.
func TestResizeToFewerDevices(t *testing.T) {
	for _, room := range []int{2, 1} {
		c := newCloud(t, map[string]int{"a": 2, "b": room})
		c.hide("pf-b")
		c.start(t.Context(), c.store, c.client(nil))
		s := server("s")
		s.Requests[0].Count = 2
		s.Ask.Groups = append(s.Ask.Groups, resource.Group{Suffix: s.Requests[0].GroupSuffix(1),
			Resources: resource.Amounts{class: 1}})
		s.Ask.GroupPolicy = resource.PolicyNone
		c.make(s)
		c.settle(lifecycle.Active)
		c.unhide("pf-b")
		request := larger("m1", 1)
		request.To = "b"
		c.act(request)
		c.settlePhase(lifecycle.Resized)
		if a, b := c.usage("pf-a"), c.usage("pf-b"); a != 2 || b != 1 {
			t.Errorf("room for %d: %d of a, %d of b", room, a, b)
		}
		c.act(lifecycle.ActionRequested{ID: "w1", Action: lifecycle.Confirm})
		c.settle(lifecycle.Active)
		if s, a, b := c.server(), c.usage("pf-a"), c.usage("pf-b"); s.Host != "b" || len(s.Devices) != 1 || a != 0 || b != 1 {
			t.Errorf("room for %d: on %s with %v: %d of a, %d of b\n%s", room, s.Host, s.Devices, a, b, c.histories())
		}
	}
}

// If a destination cannot build the guest of a live migration, the next host is tried. Nova gives up.
func TestLiveMigrationTriesTheNextHost(t *testing.T) {
	st := operation{hosts: map[string]int{"a": 1, "b": 1, "c": 1}, setup: func(c *cloud) { c.hide("pf-c") }}
	c := st.prepare(t)
	c.unhide("pf-c")
	first := ""
	c.agents.mu.Lock()
	c.agents.fails = func(host string) string {
		if first == "" {
			first = host
		}
		if host == first {
			return "the firmware is too old"
		}
		return ""
	}
	c.agents.mu.Unlock()
	c.start(t.Context(), c.store, c.client(nil))
	c.act(lifecycle.ActionRequested{ID: "m1", Action: lifecycle.Live})
	c.settle(lifecycle.Active)
	if s := c.server(); s.Host == "a" || s.Host == first || len(s.Devices) != 1 || !strings.Contains(c.histories(),
		"the firmware is too old") {
		t.Errorf("on %s with %v, first asked was %s\n%s", s.Host, s.Devices, first, c.histories())
	}
}

// Another consumer takes the first of two candidates on the only host. The second is claimed without another search.
func TestSecondCandidateOfTheHost(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 1})
	c.agents.mu.Lock()
	c.agents.devices["a"] = append(c.agents.devices["a"], "0000:3c:00.0")
	c.agents.mu.Unlock()
	c.addProvider("qf-", "a", 1)
	c.report("a")
	claims, searches, lost := 0, 0, provider.ID("")
	fail := func(call placementtest.Call) (before, after error) {
		switch call.Op {
		case "Candidates":
			searches++
			return nil, nil
		case "PutAllocation":
			claims++
		}
		if claims != 1 || call.Op != "PutAllocation" {
			return nil, nil
		}
		choices := c.server().Choices
		if len(choices) != 2 || choices[0].Host != "a" || choices[1].Host != "a" {
			t.Errorf("%+v", choices)
			return nil, nil
		}
		for id := range choices[0].Allocation {
			lost = id
		}
		return fault.New(fault.Conflict, "", "taken").WithCode(placement.CodeUndefined), nil
	}
	c.start(t.Context(), c.store, c.client(fail))
	s := c.make(server("s"))
	if s.State != lifecycle.Active || claims != 2 || searches != 1 || len(s.Devices) != 1 ||
		s.Devices[0].Provider == lost ||
		c.usage(s.Devices[0].Provider) != 1 || c.usage(lost) != 0 {
		t.Errorf("%s after %d claims and %d searches with %v, %s was lost\n%s", s.State, claims, searches, s.Devices, lost,
			c.histories())
	}
}

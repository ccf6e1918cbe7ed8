package conductor

import (
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// describe lets every host report otherwise than newCloud has it.
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

// make creates the server s of these rows and waits for what becomes of it.
func (c *cloud) make(s lifecycle.Server) lifecycle.Server {
	c.t.Helper()
	if _, err := c.conductor().Create(c.t.Context(), s); err != nil {
		c.t.Fatal(err)
	}
	c.settled()
	return c.one()
}

// usage is how many devices of a provider Placement counts as taken.
func (c *cloud) usage(id provider.ID) int {
	c.ledger.mu.Lock()
	defer c.ledger.mu.Unlock()
	return c.ledger.used(id)
}

// A server whose devices are not expressly live-migratable, or expressly are not, stays where it is, though another
// host has a device for it. Nova answers 500 after it has scheduled; here the wish is refused with a sentence, and
// nothing has begun.
func TestLiveMigrationIsRefused(t *testing.T) {
	for row, flag := range map[string]pci.Flag{"nothing is said of it": pci.Unset, "alias and device say no": pci.No} {
		t.Run(row, func(t *testing.T) {
			c := newCloud(t, map[string]int{"a": 1, "b": 1})
			c.describe(func(h *schedule.Host) { h.Devices[0].LiveMigratable = flag })
			c.ledger.hide("pf-b", true)
			c.start(t.Context(), c.store, c.ledger)
			s := server("s")
			s.Requests[0].Requirement.LiveMigratable = flag
			before := c.make(s)
			c.settle(lifecycle.Active)
			c.ledger.hide("pf-b", false)
			_, err := c.conductor().Act(t.Context(), "s", lifecycle.ActionRequested{ID: "m1", Action: lifecycle.Live})
			if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(),
				"alias nic are not explicitly requested as live-migratable") {
				t.Errorf("%v", err)
			}
			c.settle(lifecycle.Active)
			after := c.one()
			if after.Host != "a" || after.Migration != nil || after.Fault != nil || !slices.Equal(after.Devices,
				before.Devices) {
				t.Errorf("on %s with %v, migration %+v\n%s", after.Host, after.Devices, after.Migration, c.trails())
			}
			if a, b := c.usage("pf-a"), c.usage("pf-b"); a != 1 || b != 0 {
				t.Errorf("used: %d of a, %d of b", a, b)
			}
		})
	}
}

// Where Placement has the class, but no device is of the product, the server fails with a sentence and holds nothing.
func TestS19TheProductIsAnother(t *testing.T) {
	for product, state := range map[string]lifecycle.State{"1515": lifecycle.Active, "1516": lifecycle.Error} {
		c := newCloud(t, map[string]int{"a": 1})
		c.describe(func(h *schedule.Host) { h.Devices[0].Vendor, h.Devices[0].Product = "8086", "1515" })
		c.start(t.Context(), c.store, c.ledger)
		s := server("s")
		s.Requests[0].Requirement.Vendor, s.Requests[0].Requirement.Product = "8086", product
		if s = c.make(s); s.State != state {
			t.Errorf("%s: %s\n%s", product, s.State, c.trails())
		}
		if s.State == lifecycle.Error && (!strings.Contains(s.Fault.Message, "product is 1515, not 1516") ||
			c.usage("pf-a") != 0) {
			t.Errorf("%+v, %d held", s.Fault, c.usage("pf-a"))
		}
		c.whole(product)
	}
}

// A server with devices of two aliases is migrated live, and each request has its device there.
func TestS20LiveMigrationWithTwoAliases(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 2, "b": 2})
	c.ledger.hide("pf-b", true)
	c.start(t.Context(), c.store, c.ledger)
	s := server("s")
	s.Requests = append(s.Requests, pci.Request{ID: "Q-s", Alias: "crypto", Count: 1,
		Requirement: pci.Requirement{Class: class}})
	s.Ask.Groups = append(s.Ask.Groups, resource.Group{Suffix: s.Requests[1].GroupSuffix(0),
		Resources: resource.Amounts{class: 1}})
	for i := range s.Requests {
		s.Requests[i].Requirement.LiveMigratable = pci.Yes
	}
	c.make(s)
	c.settle(lifecycle.Active)
	c.ledger.hide("pf-b", false)
	c.ask(lifecycle.ActionRequested{ID: "m1", Action: lifecycle.Live})
	c.settle(lifecycle.Active)
	now := c.one()
	served := map[string]provider.ID{}
	for _, d := range now.Devices {
		served[d.RequestID] = d.Provider
	}
	if now.Host != "b" || len(now.Devices) != 2 || served["R-s"] != "pf-b" || served["Q-s"] != "pf-b" {
		t.Errorf("on %s with %+v\n%s", now.Host, now.Devices, c.trails())
	}
	if a, b := c.usage("pf-a"), c.usage("pf-b"); a != 0 || b != 2 {
		t.Errorf("used: %d of a, %d of b", a, b)
	}
}

// Without groups in Placement (pci_in_placement off), a server with a PF that fails on one host asks the next for one
// device again, and has one in the end.
func TestP14RescheduledWithoutGroups(t *testing.T) {
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
	c.start(t.Context(), c.store, c.ledger)
	s := server("s")
	s.Requests[0].Requirement.Type = pci.Physical
	s.Ask.Groups = []resource.Group{{Resources: nil}}
	s = c.make(s)
	c.until("the agents have done their part", c.quiet)
	c.agents.mu.Lock()
	defer c.agents.mu.Unlock()
	if s.State != lifecycle.Active || s.Host == first || len(s.Devices) != 1 || !strings.Contains(c.trails(),
		"the card does not answer") {
		t.Errorf("%s on %s with %v, first was %s\n%s", s.State, s.Host, s.Devices, first, c.trails())
	}
	if len(asked) != 2 || asked["a"] != 1 || asked["b"] != 1 || len(c.agents.guests[first]) != 0 {
		t.Errorf("asked for %v, left on %s: %v", asked, first, c.agents.guests[first])
	}
	if g := c.agents.guests[s.Host]["s"]; g == nil || !slices.Equal(g.devices, s.Devices) {
		t.Errorf("the guest has %+v, the record says %v", g, s.Devices)
	}
}

// A server that was shelved comes back on another host when its own is not to be had, and holds nothing between.
func TestP11UnshelvedElsewhere(t *testing.T) {
	c := story{hosts: map[string]int{"a": 1, "b": 1}}.begin(t)
	c.start(t.Context(), c.store, c.ledger)
	c.ask(lifecycle.ActionRequested{ID: "w1", Action: lifecycle.Shelve})
	c.settle(lifecycle.Shelved)
	if a, b := c.usage("pf-a"), c.usage("pf-b"); a != 0 || b != 0 || len(c.one().Devices) != 0 {
		t.Errorf("shelved: %d of a, %d of b, %v", a, b, c.one().Devices)
	}
	c.ledger.hide("pf-a", true)
	c.ask(lifecycle.ActionRequested{ID: "w2", Action: lifecycle.Unshelve})
	c.settle(lifecycle.Active)
	if s, a, b := c.one(), c.usage("pf-a"), c.usage("pf-b"); s.Host != "b" || a != 0 || b != 1 || len(s.Devices) != 1 ||
		s.Devices[0].Provider != "pf-b" {
		t.Errorf("on %s with %v: %d of a, %d of b\n%s", s.Host, s.Devices, a, b, c.trails())
	}
}

// After a resize the server has new requests; it is shelved and brought back elsewhere by these, and migrated live.
func TestM2MovesAfterAResize(t *testing.T) {
	c := story{hosts: map[string]int{"a": 2, "b": 2}}.begin(t)
	c.start(t.Context(), c.store, c.ledger)
	c.ask(larger("m1", 2))
	c.settlePhase(lifecycle.Resized)
	c.ask(lifecycle.ActionRequested{ID: "w1", Action: lifecycle.Confirm})
	c.settle(lifecycle.Active)
	c.ask(lifecycle.ActionRequested{ID: "w2", Action: lifecycle.Shelve})
	c.settle(lifecycle.Shelved)
	c.ledger.hide("pf-b", true)
	c.ask(lifecycle.ActionRequested{ID: "w3", Action: lifecycle.Unshelve})
	c.settle(lifecycle.Active)
	c.ledger.hide("pf-b", false)
	where := func(host string, on provider.ID) {
		t.Helper()
		s := c.one()
		if s.Host != host || len(s.Devices) != 2 || len(s.Requests) != 1 || !slices.Equal(s.Requests[0].Providers,
			[]provider.ID{on, on}) {
			t.Errorf("on %s with %v for %+v\n%s", s.Host, s.Devices, s.Requests, c.trails())
		}
		for _, d := range s.Devices {
			if d.RequestID != s.Requests[0].ID || d.Provider != on {
				t.Errorf("%+v serves not %s on %s", d, s.Requests[0].ID, on)
			}
		}
	}
	where("a", "pf-a")
	c.ask(lifecycle.ActionRequested{ID: "m2", Action: lifecycle.Live})
	c.settle(lifecycle.Active)
	where("b", "pf-b")
}

// A server whose devices are live-migratable stays where it is when those of the other host are not.
func TestS18TheDestinationHasNone(t *testing.T) {
	for _, flag := range []pci.Flag{pci.No, pci.Unset} {
		c := story{hosts: map[string]int{"a": 1, "b": 1}}.begin(t)
		c.describe(func(h *schedule.Host) {
			if h.Name == "b" {
				h.Devices[0].LiveMigratable = flag
			}
		})
		c.start(t.Context(), c.store, c.ledger)
		c.ask(lifecycle.ActionRequested{ID: "m1", Action: lifecycle.Live})
		c.settle(lifecycle.Active)
		if s, a, b := c.one(), c.usage("pf-a"), c.usage("pf-b"); s.Host != "a" || s.Migration.Status != "error" || a != 1 ||
			b != 0 ||
			!strings.Contains(c.trails(), "live_migratable") {
			t.Errorf("%q: on %s, migration %+v, %d of a, %d of b\n%s", flag, s.Host, s.Migration, a, b, c.trails())
		}
	}
}

// Of three devices on each host two are wanted, and follow the server.
func TestS23LiveMigrationWithTwoOfThree(t *testing.T) {
	c := story{hosts: map[string]int{"a": 3, "b": 3}}.begin(t)
	c.start(t.Context(), c.store, c.ledger)
	c.ask(here(larger("m1", 2)))
	c.settlePhase(lifecycle.Resized)
	c.ask(lifecycle.ActionRequested{ID: "w1", Action: lifecycle.Confirm})
	c.settle(lifecycle.Active)
	from := c.one().Host
	to := map[string]string{"a": "b", "b": "a"}[from]
	c.ask(lifecycle.ActionRequested{ID: "m2", Action: lifecycle.Live, To: to})
	c.settle(lifecycle.Active)
	if s, gone, used := c.one(), c.usage(provider.ID("pf-"+from)), c.usage(provider.ID("pf-"+to)); s.Host != to ||
		len(s.Devices) != 2 || gone != 0 || used != 2 {
		t.Errorf("on %s with %v: %d of %s, %d of %s\n%s", s.Host, s.Devices, gone, from, used, to, c.trails())
	}
}

// A server with two devices is resized to one, where the other host has two and where it has one.
func TestG4FewerDevices(t *testing.T) {
	for _, room := range []int{2, 1} {
		c := newCloud(t, map[string]int{"a": 2, "b": room})
		c.ledger.hide("pf-b", true)
		c.start(t.Context(), c.store, c.ledger)
		s := server("s")
		s.Requests[0].Count = 2
		s.Ask.Groups = append(s.Ask.Groups, resource.Group{Suffix: s.Requests[0].GroupSuffix(1),
			Resources: resource.Amounts{class: 1}})
		c.make(s)
		c.settle(lifecycle.Active)
		c.ledger.hide("pf-b", false)
		wish := larger("m1", 1)
		wish.To = "b"
		c.ask(wish)
		c.settlePhase(lifecycle.Resized)
		if a, b := c.usage("pf-a"), c.usage("pf-b"); a != 2 || b != 1 {
			t.Errorf("room for %d: %d of a, %d of b", room, a, b)
		}
		c.ask(lifecycle.ActionRequested{ID: "w1", Action: lifecycle.Confirm})
		c.settle(lifecycle.Active)
		if s, a, b := c.one(), c.usage("pf-a"), c.usage("pf-b"); s.Host != "b" || len(s.Devices) != 1 || a != 0 || b != 1 {
			t.Errorf("room for %d: on %s with %v: %d of a, %d of b\n%s", room, s.Host, s.Devices, a, b, c.trails())
		}
	}
}

// A host that cannot take a server that is migrated live is not the end: the next one is asked (6.7; Nova gives up).
func TestLiveMigrationTriesTheNextHost(t *testing.T) {
	st := story{hosts: map[string]int{"a": 1, "b": 1, "c": 1}, setup: func(c *cloud) { c.ledger.hide("pf-c", true) }}
	c := st.begin(t)
	c.ledger.hide("pf-c", false)
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
	c.start(t.Context(), c.store, c.ledger)
	c.ask(lifecycle.ActionRequested{ID: "m1", Action: lifecycle.Live})
	c.settle(lifecycle.Active)
	if s := c.one(); s.Host == "a" || s.Host == first || len(s.Devices) != 1 || !strings.Contains(c.trails(),
		"the firmware is too old") {
		t.Errorf("on %s with %v, first asked was %s\n%s", s.Host, s.Devices, first, c.trails())
	}
}

// Of two candidates on the only host the first is lost to somebody else; the second is claimed without asking again,
// which would find nothing.
func TestM13TheSecondCandidateOfTheHost(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 1})
	c.agents.mu.Lock()
	c.agents.devices["a"] = append(c.agents.devices["a"], "0000:3c:00.0")
	c.agents.mu.Unlock()
	c.ledger.second("a", 1)
	c.report("a")
	claims, lost := 0, provider.ID("")
	c.ledger.put = func(resource.ConsumerID) error {
		if claims++; claims > 1 {
			return nil
		}
		choices := c.one().Choices
		if len(choices) != 2 || choices[0].Host != "a" || choices[1].Host != "a" {
			t.Errorf("%+v", choices)
			return nil
		}
		for id := range choices[0].Allocation {
			lost = id
		}
		c.ledger.hide("pf-a", true)
		c.ledger.hide("qf-a", true)
		return fault.New(fault.Conflict, "", "taken").WithCode(placement.CodeUndefined)
	}
	c.start(t.Context(), c.store, c.ledger)
	s := c.make(server("s"))
	if s.State != lifecycle.Active || claims != 2 || len(s.Devices) != 1 || s.Devices[0].Provider == lost ||
		c.usage(s.Devices[0].Provider) != 1 || c.usage(lost) != 0 {
		t.Errorf("%s after %d claims with %v, %s was lost\n%s", s.State, claims, s.Devices, lost, c.trails())
	}
}

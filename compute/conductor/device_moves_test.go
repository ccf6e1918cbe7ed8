package conductor

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

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

// A resize requests the devices of the new flavor: fewer, none, or some for a server without devices. If no host
// fits, nothing changes and the server keeps running.
func TestResizeRequestsTheNewFlavor(t *testing.T) {
	c := operation{hosts: map[string]int{"a": 1, "b": 1}}.prepare(t)
	c.start(t.Context(), c.store, c.client(nil))
	c.act(larger("m0", 2)) // no host has two
	c.settle(lifecycle.Active)
	if s := c.server(); s.Host != "a" || s.Migration.Status != "error" || !strings.Contains(c.histories(),
		"No valid host was found: 1 host: fewer than 2 free devices of CUSTOM_NIC with live_migratable true on the host "+
			"(nearest: it has 1); 1 host: it is the source of the move. It goes back to a.") ||
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

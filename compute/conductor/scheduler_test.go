package conductor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/presence"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/scheduler"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/placement/placementtest"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Placement's answer to the search for candidates decides how the conductor continues.
func TestScheduleAnswers(t *testing.T) {
	for _, c := range []struct {
		name  string
		err   error
		state lifecycle.State
		says  string
	}{
		{"an unknown class", fault.New(fault.Invalid, "Invalid resource class in resources parameter: No such resource "+
			"class CUSTOM_NIC."),
			lifecycle.Error, "No valid host was found: no host has ever reported CUSTOM_NIC. "},
		{"unknown traits", fault.New(fault.Invalid, "No such trait(s): CUSTOM_A, CUSTOM_B."), lifecycle.Error,
			": no host has ever reported CUSTOM_A, CUSTOM_B. "},
		{"another objection", fault.New(fault.Invalid, "the limit is too large."), lifecycle.Error,
			"rejects the query: the limit is too large. "},
		{"forbidden", fault.New(fault.Forbidden, "bad token"), lifecycle.Error, "bad token. "},
		{"no answer", fault.New(fault.Unavailable, "connection refused"), lifecycle.Active,
			"cannot schedule now, will try again: connection refused"},
		{"an internal error", fault.New(fault.Internal, "Unexpected error"), lifecycle.Active,
			"cannot schedule now, will try again: Unexpected error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := newCloud(t, map[string]int{"a": 1})
			searches := &callErrors{op: "Candidates", errs: []error{c.err}}
			env.start(t.Context(), env.store, env.client(searches.fail))
			env.report("a")
			env.create("s")
			env.waitSettled()
			env.checkConsistent("settled")
			if s := env.servers()[0]; s.State != c.state || !strings.Contains(env.histories(), c.says) {
				t.Errorf("%s\n%s", s.State, env.histories())
			}
		})
	}
}

// Before the first reports after a start, a name that Placement does not have may still be created. The conductor
// retries for a limited time.
func TestAskBeforeTheFirstReport(t *testing.T) {
	unknown := fault.New(fault.Invalid, "No such resource class CUSTOM_NIC.")
	c := newCloud(t, map[string]int{"a": 1})
	searches := &callErrors{op: "Candidates", errs: []error{unknown, unknown}}
	c.noReports = true
	c.start(t.Context(), c.store, c.client(searches.fail))
	c.create("s")
	c.waitSettled()
	c.checkConsistent("settled")
	if c.count(lifecycle.Active) != 1 || !strings.Contains(c.histories(),
		"will try again: no host has ever reported CUSTOM_NIC") {
		t.Error(c.histories())
	}
	searches = &callErrors{op: "Candidates", errs: []error{unknown, unknown}}
	config, since := quiet(t), time.Duration(0)
	config.Since = func() time.Duration { return since }
	late := New(c.store, c.client(searches.fail), config)
	for after, waits := range map[time.Duration]bool{presence.FirstReports - time.Second: true,
		presence.FirstReports: false} {
		since = after
		event, err := late.steps.schedule(t.Context(), server("t"))
		if fault.Is(err, fault.Unavailable) != waits || (event == nil) != waits {
			t.Errorf("%s after the start: %v %v", after, event, err)
		}
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

// The scheduler refuses a host on which allocations are missing, and a claim there that was chosen before is refused
// too.
func TestHostsWithMissingAllocationsAreRefused(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 4, "b": 4})
	conductor := c.auditor(c.client(nil))
	c.placed("old", nil)

	s := server("s")
	s.State = lifecycle.Claiming
	s.Choices = []schedule.Choice{{Host: "a", Root: "root-a", Allocation: resource.Allocation{"pf-a": {class: 1}}}}
	event, err := conductor.steps.claim(t.Context(), s)
	lost, _ := event.(lifecycle.ClaimLost)
	if !strings.Contains(lost.Reason, schedule.LacksAllocations) || err != nil {
		t.Errorf("%#v %v", event, err)
	}
	if held, _ := c.placement.Allocation(t.Context(), "s"); len(held.Allocation) > 0 {
		t.Errorf("it holds %v", held.Allocation)
	}
	for round := range 20 { // each with another order of the hosts
		s.Round = round
		event, err = conductor.steps.schedule(t.Context(), s)
		chosen, _ := event.(lifecycle.Chosen)
		if err != nil || len(chosen.Choices) != 1 || chosen.Choices[0].Host != "b" {
			t.Fatalf("%#v %v", event, err)
		}
		if len(chosen.FilterFailures) != 1 || chosen.FilterFailures[0].Filter != schedule.FilterAllocations {
			t.Fatalf("%#v", chosen.FilterFailures)
		}
	}

	c.holds("old", resource.Allocation{"root-a": {"VCPU": 4}, "pf-a": {class: 1}})
	if _, err := conductor.Audits.HostAudit(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if event, err = conductor.steps.claim(t.Context(), s); event != (lifecycle.Claimed{}) || err != nil {
		t.Errorf("%#v %v", event, err)
	}
}

// While Placement reports the same state of a tree, apart from additions, a claim needs no audit of its host. After a
// removal, or without states, it does.
func TestClaimsNameTheStateOfTheTree(t *testing.T) {
	for _, states := range []bool{true, false} {
		c := newCloud(t, map[string]int{"a": 8})
		audits := 0
		client := c.client(func(call placementtest.Call) (before, after error) {
			if call.Op == "TreeAllocations" {
				audits++
			}
			return nil, nil
		})
		client.NoTreeStates = !states
		conductor := c.auditor(client)
		claim := func(id string, want int) {
			t.Helper()
			s := server(id)
			s.State = lifecycle.Claiming
			s.Choices = []schedule.Choice{{Host: "a", Root: "root-a", Allocation: resource.Allocation{"pf-a": {class: 1},
				"root-a": {"VCPU": 1}}}}
			audits = 0
			if event, err := conductor.steps.claim(t.Context(), s); event != (lifecycle.Claimed{}) || err != nil {
				t.Errorf("%#v %v", event, err)
			}
			if audits != want {
				t.Errorf("states %v, %s: %d audits, want %d", states, id, audits, want)
			}
		}
		later := 1
		if states {
			later = 0
		}
		claim("first", 1)
		claim("second", later)
		claim("third", later)
		if err := c.placement.DeleteAllocation(t.Context(), "second"); err != nil {
			t.Fatal(err)
		}
		claim("after a removal", 1)
		claim("and then", later)
		c.placement.Restore(c.placement.Clone())
		claim("after a restore", 1)
	}
}

// The cost of scheduling one server does not grow with the number of hosts: one round audits a bounded number of them.
func TestAuditsOfOneRoundAreBounded(t *testing.T) {
	const hosts = 2*scheduler.MaxAudited + 3
	devices := map[string]int{}
	for n := range hosts {
		devices[fmt.Sprintf("h%02d", n)] = 2
	}
	c := newCloud(t, devices)
	compared := map[provider.ID]int{}
	client := c.client(func(call placementtest.Call) (before, after error) {
		if call.Op == "TreeAllocations" {
			compared[call.Provider]++
		}
		return nil, nil
	})
	client.NoTreeStates = true
	conductor := c.auditor(client)
	event, err := conductor.steps.schedule(t.Context(), server("s"))
	if event == nil || err != nil || len(compared) != 1 {
		t.Fatalf("%d hosts were compared for one server: %v", len(compared), err)
	}
	for host := range devices {
		c.placed("s-"+host, func(s *lifecycle.Server) {
			root := provider.ID("root-" + host)
			s.Host = host
			s.Choices = []schedule.Choice{{Host: host, Root: root, Allocation: resource.Allocation{root: {"VCPU": 1}}}}
		})
		c.report(host)
	}
	all := map[provider.ID]int{}
	for round, want := range []int{scheduler.MaxAudited, 2 * scheduler.MaxAudited, hosts} {
		clear(compared)
		event, err := conductor.steps.schedule(t.Context(), server("s"))
		if round < 2 && (!fault.Is(err, fault.Unavailable) || len(compared) != scheduler.MaxAudited) {
			t.Errorf("round %d: %d hosts were compared: %v %v", round, len(compared), event, err)
		}
		nothing, _ := event.(lifecycle.NoValidHost)
		if round == 2 && !strings.Contains(nothing.Reason, fmt.Sprint(hosts, " hosts: ", schedule.LacksAllocations)) {
			t.Errorf("%#v %v", event, err)
		}
		if maps.Copy(all, compared); len(all) != want {
			t.Errorf("round %d: %d hosts were compared in all", round, len(all))
		}
	}
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

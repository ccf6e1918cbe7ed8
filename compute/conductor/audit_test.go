package conductor

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/api/placement/placementtest"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// auditor makes a conductor whose runner does not run, and stops the agents.
func (c *cloud) auditor(p Placement) *Conductor {
	c.agents.mu.Lock()
	defer c.agents.mu.Unlock()
	for host := range c.agents.devices {
		c.agents.paused[host] = true
	}
	conductor := New(c.store, p)
	conductor.Log = slog.New(slog.DiscardHandler)
	return conductor
}

// placed stores a server that is ACTIVE on host a with VCPUs of its root and a device, and returns what was claimed.
func (c *cloud) placed(id string, change func(*lifecycle.Server)) resource.Allocation {
	c.t.Helper()
	c.changed.Store(true)
	claimed := resource.Allocation{"root-a": {"VCPU": 4}, "pf-a": {class: 1}}
	s := server(id)
	s.State, s.Host = lifecycle.Active, "a"
	s.Choices = []schedule.Choice{{Host: "a", Root: "root-a", Allocation: claimed}}
	if change != nil {
		change(&s)
	}
	if err := c.store.Create(c.t.Context(), s); err != nil {
		c.t.Fatal(err)
	}
	return claimed
}

// holds replaces the allocation of a consumer in Placement.
func (c *cloud) holds(consumer string, a resource.Allocation) {
	c.allocate(resource.ConsumerID(consumer), a)
}

// What an audit finds of a server, by what Placement has.
func TestAudit(t *testing.T) {
	whole := resource.Allocation{"root-a": {"VCPU": 4}, "pf-a": {class: 1}}
	moving := func(phase lifecycle.MovePhase, as string) func(*lifecycle.Server) {
		return func(s *lifecycle.Server) {
			from := lifecycle.Residence{Consumer: as, Host: "a", Choice: &s.Choices[0]}
			s.State, s.Host, s.Choices = lifecycle.Moving, "b", nil
			s.Move = &lifecycle.Move{Phase: phase, Consumer: "m", From: from}
		}
	}
	for name, c := range map[string]struct {
		change           func(*lifecycle.Server)
		holder           string // who has the allocation; empty: the server
		has              resource.Allocation
		missing, foreign string // consumer and amounts; empty: nothing
	}{
		"complete":              {has: whole},
		"more than was claimed": {has: resource.Allocation{"root-a": {"VCPU": 8}, "pf-a": {class: 1}}},
		"nothing":               {missing: "s CUSTOM_NIC:1,VCPU:4"},
		"less than was claimed": {has: resource.Allocation{"root-a": {"VCPU": 1}, "pf-a": {class: 1}},
			missing: "s VCPU:3"},
		"no device":       {has: resource.Allocation{"root-a": {"VCPU": 4}}, missing: "s CUSTOM_NIC:1"},
		"on another host": {has: resource.Allocation{"pf-b": {class: 1}}, missing: "s CUSTOM_NIC:1,VCPU:4"},
		"another consumer": {holder: "x", has: resource.Allocation{"root-a": {"VCPU": 1}},
			missing: "s CUSTOM_NIC:1,VCPU:4", foreign: "x VCPU:1"},
		"a migration holds the source": {change: moving(lifecycle.Resized, "m"), holder: "m", has: whole},
		"and has lost it":              {change: moving(lifecycle.Resized, "m"), missing: "m CUSTOM_NIC:1,VCPU:4"},
		"transferred, before":          {change: moving(lifecycle.MovingAllocations, "s"), has: whole},
		"transferred, after":           {change: moving(lifecycle.MovingAllocations, "s"), holder: "m", has: whole},
		"transferred, missing":         {change: moving(lifecycle.MovingAllocations, "s"), missing: "s CUSTOM_NIC:1,VCPU:4"},
		"to be released": {change: func(s *lifecycle.Server) { s.State = lifecycle.DeletingAllocation },
			has: whole},
		"released": {change: func(s *lifecycle.Server) { s.State = lifecycle.DeletingAllocation }},
		"deleted, not released": {change: func(s *lifecycle.Server) { s.State = lifecycle.Deleted }, has: whole,
			foreign: "s CUSTOM_NIC:1,VCPU:4"},
		"left behind and gone": {change: func(s *lifecycle.Server) {
			s.Leftovers = []lifecycle.Residence{{Consumer: "m", Host: "a", Gone: true, Choice: &s.Choices[0]}}
		}, has: whole},
		"elsewhere": {change: func(s *lifecycle.Server) { s.Host = "b" }, has: whole, foreign: "s CUSTOM_NIC:1,VCPU:4"},
	} {
		t.Run(name, func(t *testing.T) {
			env := newCloud(t, map[string]int{"a": 2, "b": 2})
			conductor := env.auditor(env.client(nil))
			env.placed("s", c.change)
			if c.has != nil {
				holder := "s"
				if c.holder != "" {
					holder = c.holder
				}
				env.holds(holder, c.has)
			}
			found, err := conductor.HostAudit(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			var missing, foreign []string
			for _, m := range found.Missing {
				missing = append(missing, m.Consumer+" "+m.Lacks.Sum().String())
			}
			for _, f := range found.Foreign {
				foreign = append(foreign, f.Consumer+" "+f.Holds.Sum().String())
			}
			if strings.Join(missing, "; ") != c.missing || strings.Join(foreign, "; ") != c.foreign {
				t.Errorf("missing %v, foreign %v", missing, foreign)
			}
			text := strings.Join(conductor.HostConditions("a"), "\n")
			lacks, foreigners := strings.Contains(text, "lacks"), strings.Contains(text, "has not placed on this host")
			if lacks != (c.missing != "") || foreigners != (c.foreign != "") {
				t.Errorf("the conditions are %q", text)
			}
		})
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
	if _, err := conductor.HostAudit(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if event, err = conductor.steps.claim(t.Context(), s); event != (lifecycle.Claimed{}) || err != nil {
		t.Errorf("%#v %v", event, err)
	}
}

// The cost of scheduling one server does not grow with the number of hosts: one round audits a bounded number of them.
func TestAuditsOfOneRoundAreBounded(t *testing.T) {
	const hosts = 2*maxAudited + 3
	devices := map[string]int{}
	for n := range hosts {
		devices[fmt.Sprintf("h%02d", n)] = 2
	}
	c := newCloud(t, devices)
	compared := map[provider.ID]int{}
	conductor := c.auditor(c.client(func(call placementtest.Call) (before, after error) {
		if call.Op == "ProviderAllocations" {
			compared[call.Provider]++
		}
		return nil, nil
	}))
	if event, err := conductor.steps.schedule(t.Context(), server("s")); event == nil || err != nil || len(compared) != 1 {
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
	for round, want := range []int{maxAudited, 2 * maxAudited, hosts} {
		clear(compared)
		event, err := conductor.steps.schedule(t.Context(), server("s"))
		if round < 2 && (!fault.Is(err, fault.Unavailable) || len(compared) != maxAudited) {
			t.Errorf("round %d: %d hosts were compared: %v %v", round, len(compared), event, err)
		}
		nothing, _ := event.(lifecycle.NoValidHost)
		if round == 2 && !strings.Contains(nothing.Reason, fmt.Sprint(hosts, " hosts: ", schedule.LacksAllocations)) {
			t.Errorf("%#v %v", event, err)
		}
		if n := len(conductor.audits.last); n != want {
			t.Errorf("round %d: %d hosts were compared in all", round, n)
		}
	}
}

// A report starts an audit of its host every auditEvery at most, and every auditAgain if allocations are missing or
// Placement may have been restored.
func TestReportsStartAudits(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 2, "b": 2})
	conductor := c.auditor(c.client(nil))
	now, unavailable := time.Now(), fault.New(fault.Unavailable, "", "no answer")
	conductor.now = func() time.Time { return now }
	reported := func(name string) bool {
		report := schedule.Host{Name: name, Provider: provider.ID("root-" + name)}
		conductor.HostReported(report)
		conductor.HostReported(report) // twice is once
		host, ok := conductor.audits.next()
		if _, twice := conductor.audits.next(); twice {
			t.Error("two audits are due")
		}
		if ok {
			if _, err := conductor.audits.auditHost(t.Context(), host); err != nil {
				t.Fatal(err)
			}
		}
		return ok
	}
	for _, c := range []struct {
		what  string
		after time.Duration
		do    func()
		want  bool
	}{
		{"the first report", 0, nil, true},
		{"the next", auditEvery - time.Second, nil, false},
		{"a later one", time.Second, nil, true},
		{"Placement did not answer", auditAgain, func() { conductor.audits.noteUnavailable(unavailable) }, true},
		{"Placement refused something", auditAgain, func() { conductor.audits.noteUnavailable(concurrent()) }, false},
		{"all is well on another host", 0, func() { reported("b") }, false},
		{"something is missing", auditEvery - time.Second, func() { reported("b"); c.placed("s", nil) }, true},
		{"still", auditAgain - time.Second, nil, false},
		{"and again", time.Second, nil, true},
	} {
		now = now.Add(c.after)
		if c.do != nil {
			c.do()
		}
		if got := reported("a"); got != c.want {
			t.Errorf("%s: audited: %v", c.what, got)
		}
	}
	now = now.Add(auditAgain)
	if !reported("b") {
		t.Error("missing allocations on one host do not make the audits of other hosts out of date")
	}
}

// Healing adds what is missing, and leaves out a server whose step is due.
func TestHeal(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 4})
	conductor := c.auditor(c.client(nil))
	claimed := c.placed("gone", nil)
	c.placed("small", nil)
	c.holds("small", resource.Allocation{"root-a": {"VCPU": 1, "MEMORY_MB": 7}})
	c.placed("busy", nil)
	conductor.runner.Wake("busy")
	found, err := conductor.HostHeal(t.Context(), "a", false)
	if err != nil || len(found.Missing) != 3 {
		t.Fatalf("%+v %v", found, err)
	}
	for _, m := range found.Missing {
		busy := strings.Contains(m.Outcome, "a step of the server is due")
		if m.Healed == busy || busy != (m.Server == "busy") {
			t.Errorf("%+v", m)
		}
	}
	for consumer, want := range map[resource.ConsumerID]resource.Allocation{"gone": claimed, "busy": nil,
		"small": {"root-a": {"VCPU": 4, "MEMORY_MB": 7}, "pf-a": {class: 1}}} {
		held, _ := c.placement.Allocation(t.Context(), consumer)
		if !held.Allocation.Equal(want) || want != nil && held.Project+held.User+held.ConsumerType != "puINSTANCE" {
			t.Errorf("%s holds %+v", consumer, held)
		}
	}
	text := strings.Join(conductor.HostConditions("a"), "\n")
	if !strings.Contains(text, "server busy (busy) lacks") || strings.Contains(text, "gone") {
		t.Errorf("the condition is %q", text)
	}
}

// Healing returns Placement's refusal as the outcome, and changes nothing then.
func TestHealIsRefused(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 1})
	unanswered := &callErrors{op: "PutAllocation"}
	conductor := c.auditor(c.client(unanswered.fail))
	c.placed("s", nil)
	c.holds("other", resource.Allocation{"pf-a": {class: 1}})
	found, err := conductor.HostHeal(t.Context(), "a", false)
	if err != nil || len(found.Missing) != 1 || found.Missing[0].Healed ||
		!strings.Contains(found.Missing[0].Outcome, "not written: CUSTOM_NIC on the resource provider pf-a: ") {
		t.Errorf("%+v %v", found, err)
	}
	unanswered.calls, unanswered.errs = 0, []error{fault.New(fault.Unavailable, "", "no answer")}
	if _, err := conductor.HostHeal(t.Context(), "a", false); !fault.Is(err, fault.Unavailable) {
		t.Errorf("%v", err)
	}
	if _, err := conductor.HostHeal(t.Context(), "b", false); !fault.Is(err, fault.NotFound) {
		t.Errorf("%v", err)
	}
}

package conduct

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// auditor is a compute of which only audits are used; no agent looks at its assignments.
func (c *cloud) auditor(p Placement) *Conductor {
	c.agents.mu.Lock()
	defer c.agents.mu.Unlock()
	for host := range c.agents.devices {
		c.agents.dark[host] = true
	}
	conductor := New(c.store, p)
	conductor.Log = slog.New(slog.DiscardHandler)
	return conductor
}

// placed stores a server that is ACTIVE on host a, with VCPUs of its root and a device, and gives it what was claimed.
func (c *cloud) placed(id string, change func(*lifecycle.Server)) resource.Allocation {
	c.t.Helper()
	c.others.Store(true)
	claimed := resource.Allocation{"root-a": {"VCPU": 4}, "pf-a": {class: 1}}
	s := server(id)
	s.State, s.Host, s.Choices = lifecycle.Active, "a", []schedule.Choice{{Host: "a", Root: "root-a", Allocation: claimed}}
	if change != nil {
		change(&s)
	}
	if err := c.store.Create(c.t.Context(), s); err != nil {
		c.t.Fatal(err)
	}
	return claimed
}

// holds gives a consumer an allocation in the ledger, instead of what it has.
func (c *cloud) holds(consumer string, a resource.Allocation) {
	c.t.Helper()
	c.others.Store(true)
	held, err := c.ledger.Allocation(c.t.Context(), resource.ConsumerID(consumer))
	if err != nil {
		c.t.Fatal(err)
	}
	held.Allocation = a
	if err := c.ledger.PutAllocation(c.t.Context(), resource.ConsumerID(consumer), held); err != nil {
		c.t.Fatal(err)
	}
}

// What an audit finds of a server, by what Placement has.
func TestAudit(t *testing.T) {
	whole := resource.Allocation{"root-a": {"VCPU": 4}, "pf-a": {class: 1}}
	moving := func(state lifecycle.State, as string) func(*lifecycle.Server) {
		return func(s *lifecycle.Server) {
			from := lifecycle.Stay{Consumer: as, Host: "a", Choice: &s.Choices[0]}
			s.State, s.Move, s.Host, s.Choices = state, &lifecycle.Move{As: "m", From: from}, "b", nil
		}
	}
	for name, c := range map[string]struct {
		change           func(*lifecycle.Server)
		holder           string // who has the allocation; empty: the server
		has              resource.Allocation
		missing, foreign string // consumer and amounts; empty: nothing
	}{
		"all is there":                   {has: whole},
		"more than was claimed":          {has: resource.Allocation{"root-a": {"VCPU": 8}, "pf-a": {class: 1}}},
		"nothing":                        {missing: "s CUSTOM_NIC:1,VCPU:4"},
		"less":                           {has: resource.Allocation{"root-a": {"VCPU": 1}, "pf-a": {class: 1}}, missing: "s VCPU:3"},
		"no device":                      {has: resource.Allocation{"root-a": {"VCPU": 4}}, missing: "s CUSTOM_NIC:1"},
		"on another host":                {has: resource.Allocation{"pf-b": {class: 1}}, missing: "s CUSTOM_NIC:1,VCPU:4"},
		"a stranger":                     {holder: "x", has: resource.Allocation{"root-a": {"VCPU": 1}}, missing: "s CUSTOM_NIC:1,VCPU:4", foreign: "x VCPU:1"},
		"a migration holds the source":   {change: moving(lifecycle.Resized, "m"), holder: "m", has: whole},
		"its share is lost":              {change: moving(lifecycle.Resized, "m"), missing: "m CUSTOM_NIC:1,VCPU:4"},
		"changing hands, not yet":        {change: moving(lifecycle.Rekeying, "s"), has: whole},
		"changing hands, already":        {change: moving(lifecycle.Rekeying, "s"), holder: "m", has: whole},
		"changing hands, nobody has it":  {change: moving(lifecycle.Rekeying, "s"), missing: "s CUSTOM_NIC:1,VCPU:4"},
		"about to be given back":         {change: func(s *lifecycle.Server) { s.State = lifecycle.Releasing }, has: whole},
		"given back":                     {change: func(s *lifecycle.Server) { s.State = lifecycle.Releasing }},
		"deleted, and its share is left": {change: func(s *lifecycle.Server) { s.State = lifecycle.Deleted }, has: whole, foreign: "s CUSTOM_NIC:1,VCPU:4"},
		"left behind, and gone there": {change: func(s *lifecycle.Server) {
			s.Left = []lifecycle.Stay{{Consumer: "m", Host: "a", Gone: true, Choice: &s.Choices[0]}}
		}, has: whole},
		"elsewhere": {change: func(s *lifecycle.Server) { s.Host = "b" }, has: whole, foreign: "s CUSTOM_NIC:1,VCPU:4"},
	} {
		t.Run(name, func(t *testing.T) {
			world := newCloud(t, map[string]int{"a": 2, "b": 2})
			conductor := world.auditor(world.ledger)
			world.placed("s", c.change)
			if c.has != nil {
				holder := "s"
				if c.holder != "" {
					holder = c.holder
				}
				world.holds(holder, c.has)
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
			if strings.Contains(text, "lacks") != (c.missing != "") || strings.Contains(text, "consumer ") != (c.foreign != "") {
				t.Errorf("the conditions are %q", text)
			}
		})
	}
}

// A host on which Placement lacks something is left out by the scheduler, and refused by a claim that was chosen before.
func TestNothingIsPlacedWherePlacementLacksAllocations(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 4, "b": 4})
	conductor := c.auditor(c.ledger)
	c.placed("old", nil)

	s := server("s")
	s.State, s.Choices = lifecycle.Claiming, []schedule.Choice{{Host: "a", Root: "root-a", Allocation: resource.Allocation{"pf-a": {class: 1}}}}
	event, err := conductor.claim(t.Context(), s)
	if lost, ok := event.(lifecycle.ClaimLost); !ok || !strings.Contains(lost.Reason, schedule.LacksAllocations) || err != nil {
		t.Errorf("%#v %v", event, err)
	}
	if held, _ := c.ledger.Allocation(t.Context(), "s"); len(held.Allocation) > 0 {
		t.Errorf("it holds %v", held.Allocation)
	}
	for round := range 20 { // whatever chance would choose
		s.Round = round
		event, err = conductor.schedule(t.Context(), s)
		chosen, ok := event.(lifecycle.Chosen)
		if !ok || err != nil || len(chosen.Choices) != 1 || chosen.Choices[0].Host != "b" || len(chosen.Falls) != 1 || chosen.Falls[0].Step != schedule.StepAllocations {
			t.Fatalf("%#v %v", event, err)
		}
	}

	c.holds("old", resource.Allocation{"root-a": {"VCPU": 4}, "pf-a": {class: 1}})
	if _, err := conductor.HostAudit(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if event, err = conductor.claim(t.Context(), s); event != (lifecycle.Claimed{}) || err != nil {
		t.Errorf("%#v %v", event, err)
	}
}

// counted counts how often Placement is asked who has something of a provider.
type counted struct {
	Placement
	asked map[provider.ID]int
}

func (p counted) ProviderAllocations(ctx context.Context, id provider.ID) (map[resource.ConsumerID]resource.Amounts, error) {
	p.asked[id]++
	return p.Placement.ProviderAllocations(ctx, id)
}

// What one server costs does not grow with the number of hosts: those that lack something are found a bounded number at a time.
func TestAuditsOfOneRoundAreBounded(t *testing.T) {
	const hosts = 2*mostAudited + 3
	devices := map[string]int{}
	for n := range hosts {
		devices[fmt.Sprintf("h%02d", n)] = 2
	}
	c := newCloud(t, devices)
	p := counted{c.ledger, map[provider.ID]int{}}
	conductor := c.auditor(p)
	if event, err := conductor.schedule(t.Context(), server("s")); event == nil || err != nil || len(p.asked) != 1 {
		t.Fatalf("%d hosts were compared for one server: %v", len(p.asked), err)
	}
	for host := range devices {
		c.placed("s-"+host, func(s *lifecycle.Server) {
			root := provider.ID("root-" + host)
			s.Host, s.Choices = host, []schedule.Choice{{Host: host, Root: root, Allocation: resource.Allocation{root: {"VCPU": 1}}}}
		})
		c.report(host)
	}
	for round, want := range []int{mostAudited, 2 * mostAudited, hosts} {
		clear(p.asked)
		event, err := conductor.schedule(t.Context(), server("s"))
		if round < 2 && (!fault.Is(err, fault.Unavailable) || len(p.asked) != mostAudited) {
			t.Errorf("round %d: %d hosts were compared: %v %v", round, len(p.asked), event, err)
		}
		if nothing, ok := event.(lifecycle.NothingFits); round == 2 && (!ok || !strings.Contains(nothing.Reason, fmt.Sprint(hosts, " hosts: ", schedule.LacksAllocations))) {
			t.Errorf("%#v %v", event, err)
		}
		if n := len(conductor.audits.last); n != want {
			t.Errorf("round %d: %d hosts were compared in all", round, n)
		}
	}
}

// Reports have a host compared at most every auditEvery, and sooner when something was found, or Placement may have been restored.
func TestReportsHaveTheirHostCompared(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 2, "b": 2})
	conductor := c.auditor(c.ledger)
	now := time.Now()
	conductor.now = func() time.Time { return now }
	reported := func(name string) bool {
		report := schedule.Host{Name: name, Provider: provider.ID("root-" + name)}
		conductor.HostReported(report)
		conductor.HostReported(report) // twice is once
		host, ok := conductor.audits.next()
		if _, twice := conductor.audits.next(); twice {
			t.Error("it is to be compared twice")
		}
		if ok {
			if _, err := conductor.auditWhole(t.Context(), host); err != nil {
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
		{"Placement did not answer", time.Second, func() { conductor.suspect(fault.New(fault.Unavailable, "", "no answer")) }, true},
		{"something else was wrong", time.Second, func() { conductor.suspect(fault.New(fault.Conflict, "", "taken")) }, false},
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
			t.Errorf("%s: compared: %v", c.what, got)
		}
	}
	if !reported("b") {
		t.Error("what is missing on one host does not make the others suspicious")
	}
}

// Healing writes what is missing, beside what is there, and leaves out a server that is on its way.
func TestHeal(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 4})
	conductor := c.auditor(c.ledger)
	claimed := c.placed("gone", nil)
	c.placed("small", nil)
	c.holds("small", resource.Allocation{"root-a": {"VCPU": 1, "MEMORY_MB": 7}})
	c.placed("busy", nil)
	conductor.runner.Wake("busy") // and nobody performs its steps
	found, err := conductor.HostHeal(t.Context(), "a", false)
	if err != nil || len(found.Missing) != 3 {
		t.Fatalf("%+v %v", found, err)
	}
	for _, m := range found.Missing {
		if m.Healed != (m.Server != "busy") || m.Server == "busy" && !strings.Contains(m.Outcome, "is on its way") {
			t.Errorf("%+v", m)
		}
	}
	for consumer, want := range map[resource.ConsumerID]resource.Allocation{"gone": claimed, "busy": nil,
		"small": {"root-a": {"VCPU": 4, "MEMORY_MB": 7}, "pf-a": {class: 1}}} {
		if held, _ := c.ledger.Allocation(t.Context(), consumer); !held.Allocation.Equal(want) || want != nil && (held.Project != "p" || held.ConsumerType != "INSTANCE") {
			t.Errorf("%s holds %+v", consumer, held)
		}
	}
	if text := strings.Join(conductor.HostConditions("a"), "\n"); !strings.Contains(text, "server busy (busy) lacks") || strings.Contains(text, "gone") {
		t.Errorf("the condition is %q", text)
	}
}

// What Placement refuses is said, and left as it was.
func TestHealIsRefused(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 1})
	conductor := c.auditor(c.ledger)
	c.placed("s", nil)
	c.holds("other", resource.Allocation{"pf-a": {class: 1}})
	found, err := conductor.HostHeal(t.Context(), "a", false)
	if err != nil || len(found.Missing) != 1 || found.Missing[0].Healed || !strings.Contains(found.Missing[0].Outcome, "not written: pf-a has not enough CUSTOM_NIC left") {
		t.Errorf("%+v %v", found, err)
	}
	c.ledger.put = func(resource.ConsumerID) error { return fault.New(fault.Unavailable, "", "no answer") }
	if _, err := conductor.HostHeal(t.Context(), "a", false); !fault.Is(err, fault.Unavailable) {
		t.Errorf("%v", err)
	}
	if _, err := conductor.HostHeal(t.Context(), "b", false); !fault.Is(err, fault.NotFound) {
		t.Errorf("%v", err)
	}
}

package conductor

import (
	"strings"
	"testing"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/resource"
)

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
			found, err := conductor.Audits.HostAudit(t.Context(), "a")
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
			text := strings.Join(condition.Texts(conductor.HostConditions("a")), "\n")
			lacks, foreigners := strings.Contains(text, "lacks"), strings.Contains(text, "has not placed on this host")
			if lacks != (c.missing != "") || foreigners != (c.foreign != "") {
				t.Errorf("the conditions are %q", text)
			}
		})
	}
}

package conductor

import (
	"strings"
	"testing"

	"github.com/openberth/berth/compute/audit"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// Healing adds what is missing, and leaves out a server whose step is due.
func TestHeal(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 4})
	conductor := c.auditor(c.client(nil))
	claimed := c.placed("gone", nil)
	c.placed("small", nil)
	c.holds("small", resource.Allocation{"root-a": {"VCPU": 1, "MEMORY_MB": 7}})
	c.placed("busy", nil)
	conductor.runner.Wake("busy")
	found, err := conductor.Audits.HostHeal(t.Context(), "a", audit.Healing{})
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
	text := strings.Join(condition.Texts(conductor.HostConditions("a")), "\n")
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
	found, err := conductor.Audits.HostHeal(t.Context(), "a", audit.Healing{})
	if err != nil || len(found.Missing) != 1 || found.Missing[0].Healed ||
		!strings.Contains(found.Missing[0].Outcome, "not written: CUSTOM_NIC on the resource provider pf-a: ") {
		t.Errorf("%+v %v", found, err)
	}
	unanswered.calls, unanswered.errs = 0, []error{fault.New(fault.Unavailable, "no answer")}
	if _, err := conductor.Audits.HostHeal(t.Context(), "a", audit.Healing{}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("%v", err)
	}
	if _, err := conductor.Audits.HostHeal(t.Context(), "b", audit.Healing{}); !fault.Is(err, fault.NotFound) {
		t.Errorf("%v", err)
	}
}

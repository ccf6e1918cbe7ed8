package conductor

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openberth/berth/compute/audit"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/placementtest"
	"github.com/openberth/berth/resource"
)

// An allocation of a consumer that compute does not know is removed on request, unless an agent has something of it or
// the agent of the host does not report. The answer has the command that writes it back.
func TestForeignAllocationIsRemovedOnRequest(t *testing.T) {
	orphan := resource.Allocation{"root-a": {"VCPU": 2}, "pf-a": {class: 1}}
	for name, c := range map[string]struct {
		report func(h *schedule.Host) // of the agent
		silent bool
		want   string // why it is kept
	}{
		"unknown everywhere": {func(*schedule.Host) {}, false, ""},
		"a guest": {func(h *schedule.Host) { h.Present = []schedule.Present{{ID: "orphan"}} }, false,
			"the agent of a reports a guest with this id"},
		"a guest of a migration": {func(h *schedule.Host) {
			h.Present = []schedule.Present{{ID: "m", Server: "orphan"}}
		}, false, "the agent of a reports a guest with this id"},
		"a device":     {func(h *schedule.Host) { h.Devices[0].Holder = "orphan" }, false, "it holds device"},
		"silent agent": {func(*schedule.Host) {}, true, "the agent of the host does not report"},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := newCloud(t, map[string]int{"a": 4})
			conductor := cloud.auditor(cloud.client(nil), func(config *Config) {
				if c.silent {
					config.Since = func() time.Duration { return time.Hour }
				}
			})
			cloud.holds("orphan", orphan)
			cloud.changeReport("a", c.report)
			found, err := conductor.Audits.HostAudit(t.Context(), "a")
			if err != nil || len(found.Foreign) != 1 || !found.Foreign[0].Unknown || found.Foreign[0].Since.IsZero() ||
				!strings.Contains(found.Foreign[0].Kept, c.want) || (c.want == "") != (found.Foreign[0].Kept == "") {
				t.Fatalf("%+v %v, want %q", found, err, c.want)
			}
			if list := conductor.Audits.HostForeign("a"); len(list) != 1 || list[0].Consumer != "orphan" {
				t.Errorf("the devices of the host show %+v", list)
			}
			healed, err := conductor.Audits.HostHeal(t.Context(), "a", audit.Healing{Remove: []string{"orphan"}})
			if err != nil || len(healed.Foreign) != 1 || healed.Foreign[0].Removed != (c.want == "") {
				t.Fatalf("%+v %v", healed, err)
			}
			held, err := cloud.placement.Allocation(t.Context(), "orphan")
			if err != nil || (len(held.Allocation) == 0) != (c.want == "") {
				t.Errorf("%+v %v", held, err)
			}
			if undo := healed.Foreign[0].Undo; c.want == "" && (!strings.Contains(undo, "--allocation rp=root-a,VCPU=2 ") ||
				!strings.HasSuffix(undo, " orphan")) {
				t.Errorf("undo is %q", undo)
			}
		})
	}
}

// Only what is named is removed, and only on the host: a name without an allocation there is refused before anything is
// changed. A server that compute has placed elsewhere loses what it has left here.
func TestOnlyNamedForeignAllocationsAreRemoved(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 4, "b": 4})
	conductor := c.auditor(c.client(nil))
	c.holds("first", resource.Allocation{"root-a": {"VCPU": 1}})
	c.holds("second", resource.Allocation{"root-a": {"VCPU": 1}})
	c.placed("moved", func(s *lifecycle.Server) {
		s.Host = "b"
		s.Choices = []schedule.Choice{{Host: "b", Root: "root-b", Allocation: resource.Allocation{"root-b": {"VCPU": 4}}}}
	})
	c.holds("moved", resource.Allocation{"root-a": {"VCPU": 4}, "root-b": {"VCPU": 4}})
	_, err := conductor.Audits.HostHeal(t.Context(), "a", audit.Healing{Remove: []string{"first", "third"}})
	if !fault.Is(err, fault.NotFound) || !strings.Contains(err.Error(), "consumer third has no allocation on host a") {
		t.Errorf("%v", err)
	}
	if held, _ := c.placement.Allocation(t.Context(), "first"); len(held.Allocation) != 1 {
		t.Errorf("a refused request has removed %+v", held)
	}
	found, err := conductor.Audits.HostHeal(t.Context(), "a", audit.Healing{Remove: []string{"first", "moved"}})
	if err != nil || len(found.Foreign) != 3 {
		t.Fatalf("%+v %v", found, err)
	}
	for consumer, want := range map[resource.ConsumerID]resource.Allocation{"first": nil,
		"second": {"root-a": {"VCPU": 1}}, "moved": {"root-b": {"VCPU": 4}}} {
		if held, _ := c.placement.Allocation(t.Context(), consumer); !held.Allocation.Equal(want) {
			t.Errorf("%s has %v, want %v", consumer, held.Allocation, want)
		}
	}
}

// After a restore of compute's database, its records can place a server on the host that it has left since. Healing
// that host would give the server allocations on two hosts.
func TestHealRefusesConsumerOnAnotherHost(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 4, "b": 4})
	conductor := c.auditor(c.client(nil))
	c.placed("s", nil) // on a
	now := resource.Allocation{"root-b": {"VCPU": 4}, "pf-b": {class: 1}}
	c.holds("s", now)
	c.changeReport("b", func(h *schedule.Host) { h.Present = []schedule.Present{{ID: "s", Server: "s", Assigned: true}} })
	const want = "of it on b, compute's records have it on a, and its guest is reported by the agent of b"
	found, err := conductor.Audits.HostAudit(t.Context(), "a")
	if err != nil || len(found.Missing) != 1 || !strings.Contains(found.Missing[0].Refused, want) {
		t.Errorf("%+v %v", found, err)
	}
	for _, over := range []bool{false, true} {
		found, err := conductor.Audits.HostHeal(t.Context(), "a", audit.Healing{Oversubscribe: over})
		if err != nil || len(found.Missing) != 1 || found.Missing[0].Healed ||
			!strings.Contains(found.Missing[0].Outcome, want) {
			t.Errorf("%+v %v", found, err)
		}
	}
	if held, _ := c.placement.Allocation(t.Context(), "s"); !held.Allocation.Equal(now) {
		t.Errorf("the server has %v", held.Allocation)
	}
}

// A server that gets the host while an operator has what it left there removed keeps its allocation: the server may
// have it since the audit, or a step that claims it may be due.
func TestServerReturnsDuringRemoval(t *testing.T) {
	onA := resource.Allocation{"root-a": {"VCPU": 4}}
	choice := []schedule.Choice{{Host: "a", Root: "root-a", Allocation: onA}}
	for name, back := range map[string]func(*lifecycle.Server){
		"has the host": func(s *lifecycle.Server) { s.Host, s.Choices = "a", choice },
		"is being claimed": func(s *lifecycle.Server) {
			s.State, s.Host, s.Choices = lifecycle.Claiming, "", choice
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCloud(t, map[string]int{"a": 4, "b": 4})
			var once sync.Once
			removing := false
			conductor := c.auditor(c.client(func(call placementtest.Call) (before, after error) {
				if removing && call.Op == "Allocation" {
					once.Do(func() {
						if _, err := c.store.Change(t.Context(), "s", func(s lifecycle.Server) lifecycle.Server {
							back(&s)
							return s
						}); err != nil {
							t.Error(err)
						}
						c.holds("s", onA)
					})
				}
				return nil, nil
			}))
			onB := resource.Allocation{"root-b": {"VCPU": 4}}
			c.placed("s", func(s *lifecycle.Server) {
				s.Host, s.Choices = "b", []schedule.Choice{{Host: "b", Root: "root-b", Allocation: onB}}
			})
			c.holds("s", resource.Allocation{"root-a": {"VCPU": 4}, "root-b": {"VCPU": 4}})
			removing = true
			found, err := conductor.Audits.HostHeal(t.Context(), "a", audit.Healing{Remove: []string{"s"}})
			if err != nil || len(found.Foreign) != 1 || found.Foreign[0].Removed ||
				!strings.HasPrefix(found.Foreign[0].Outcome, "not removed: ") {
				t.Errorf("%+v %v", found, err)
			}
			if held, _ := c.placement.Allocation(t.Context(), "s"); !held.Allocation.Equal(onA) {
				t.Errorf("the server has %v", held.Allocation)
			}
		})
	}
}

// What was removed, and how it is undone, is returned although Placement does not answer any more.
func TestOutcomeOfPartOfHealing(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 4})
	lost := false
	conductor := c.auditor(c.client(func(call placementtest.Call) (before, after error) {
		if call.Op == "PutAllocation" && !lost {
			lost = true
			return nil, nil
		}
		if lost {
			return fault.New(fault.Unavailable, "no answer"), nil
		}
		return nil, nil
	}))
	c.placed("s", nil)
	c.holds("first", resource.Allocation{"root-a": {"VCPU": 1}})
	c.holds("second", resource.Allocation{"root-a": {"VCPU": 1}})
	found, err := conductor.Audits.HostHeal(t.Context(), "a", audit.Healing{Remove: []string{"first", "second"}})
	if err != nil || len(found.Foreign) != 2 || len(found.Missing) != 1 {
		t.Fatalf("%+v %v", found, err)
	}
	if f := found.Foreign[0]; !f.Removed || f.Undo == "" {
		t.Errorf("%+v", f)
	}
	if f := found.Foreign[1]; f.Removed || f.Outcome != "not removed: no answer" {
		t.Errorf("%+v", f)
	}
	if m := found.Missing[0]; m.Healed || m.Outcome != "not written: no answer" {
		t.Errorf("%+v", m)
	}
}

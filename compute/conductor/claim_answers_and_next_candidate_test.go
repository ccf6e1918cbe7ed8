package conductor

import (
	"strings"
	"testing"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/placementtest"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Placement's answer to a claim decides how the conductor continues.
func TestClaimAnswers(t *testing.T) {
	lost := fault.New(fault.Conflict, "taken").WithCode(placement.CodeUndefined)
	for _, c := range []struct {
		name   string
		errs   []error // of the first claims; those after succeed
		state  lifecycle.State
		says   string // in the history or the fault
		claims int
	}{
		{"at once", nil, lifecycle.Active, "claimed on", 1},
		{"generations move", []error{concurrent(), concurrent()}, lifecycle.Active, "claimed on", 3},
		{"the first choice is taken", []error{lost}, lifecycle.Active, "lost the claim", 2},
		{"generations never rest", []error{concurrent(), concurrent(), concurrent(), concurrent(), concurrent()},
			lifecycle.Active,
			"another generation", 6},
		{"a provider has vanished", []error{fault.New(fault.Invalid, "no such provider")}, lifecycle.Active,
			"no such provider", 2},
		{"no answer", []error{fault.New(fault.Unavailable, "connection refused")}, lifecycle.Active,
			"cannot claim now, will try again: connection refused", 2},
		{"an internal error", []error{fault.New(fault.Internal, "Unexpected error")}, lifecycle.Active,
			"cannot claim now, will try again: Unexpected error", 2},
		{"forbidden", []error{fault.New(fault.Forbidden, "bad token")}, lifecycle.Error, "bad token", 1},
		{"always taken", []error{lost, lost, lost, lost, lost, lost, lost, lost, lost, lost}, lifecycle.Error,
			"in each of 5 rounds, last: taken", 9},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := newCloud(t, map[string]int{"a": 1, "b": 1})
			claims := &callErrors{op: "PutAllocation", errs: c.errs}
			env.start(t.Context(), env.store, env.client(claims.fail))
			env.create("s")
			env.waitSettled()
			env.checkConsistent("settled")
			s := env.servers()[0]
			if s.State != c.state || claims.count() != c.claims || !strings.Contains(env.histories(), c.says) {
				t.Errorf("%s after %d claims\n%s", s.State, claims.count(), env.histories())
			}
			env.deleteAll()
		})
	}
}

// An allocation from an earlier claim is replaced, or deleted if the new claim is refused.
func TestEarlierClaimIsReplaced(t *testing.T) {
	for _, taken := range []bool{false, true} {
		env := newCloud(t, map[string]int{"a": 1, "b": 1})
		c := New(env.store, env.client(nil), Config{})
		env.allocate("s", resource.Allocation{"pf-a": {class: 1}})
		if taken {
			env.allocate("other", resource.Allocation{"pf-b": {class: 1}})
		}
		s := server("s")
		s.Try, s.Choices = 3, choices(resource.Allocation{"pf-b": {class: 1}})
		e, err := c.steps.claim(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		held := env.placement.Held("s")
		if taken {
			if lost, ok := e.(lifecycle.ClaimLost); !ok || lost.Try != 3 || len(held) != 0 {
				t.Errorf("%#v, holds %v", e, held)
			}
		} else if e != (lifecycle.Claimed{Try: 3}) || !held.Equal(s.Choices[0].Allocation) {
			t.Errorf("%#v, holds %v", e, held)
		}
	}
}

// Another consumer takes the planned one of two devices on the only host. A further round claims the other one.
func TestOtherDeviceOfTheHost(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 1})
	c.agents.mu.Lock()
	c.agents.devices["a"] = append(c.agents.devices["a"], "0000:3c:00.0")
	c.agents.mu.Unlock()
	c.addProvider("qf-", "a", 1)
	c.report("a")
	claims, searches, lost := 0, 0, provider.ID("")
	fail := func(call placementtest.Call) (before, after error) {
		switch call.Op { // audits call other methods at the same time; only the worker of the server calls these
		case "Candidates":
			searches++
			return nil, nil
		case "PutAllocation":
			claims++
		default:
			return nil, nil
		}
		if claims != 1 {
			return nil, nil
		}
		choices := c.server().Choices
		if len(choices) != 1 || choices[0].Host != "a" {
			t.Errorf("%+v", choices)
			return nil, nil
		}
		lost = choices[0].Mappings["R-s-0"][0]
		c.allocate("other", resource.Allocation{lost: {class: 1}})
		return nil, nil
	}
	c.start(t.Context(), c.store, c.client(fail))
	s := c.make(server("s"))
	if s.State != lifecycle.Active || claims != 2 || searches != 2 || len(s.Devices) != 1 ||
		s.Devices[0].Provider == lost ||
		c.usage(s.Devices[0].Provider) != 1 || c.usage(lost) != 1 {
		t.Errorf("%s after %d claims and %d searches with %v, %s was lost\n%s", s.State, claims, searches, s.Devices, lost,
			c.histories())
	}
}

// The answer to a claim was lost. When the claim is repeated, allocations of another server are missing on the host, so
// it is given up before Placement is asked: the allocation is not left behind.
func TestRepeatedClaimIsGivenUpWithItsAllocation(t *testing.T) {
	env := newCloud(t, map[string]int{"a": 2})
	c := env.auditor(env.client(nil))
	env.placed("other", nil) // and Placement has nothing of it
	s := server("s")
	claim := resource.Allocation{"root-a": {"VCPU": 1}}
	s.Try, s.Choices = 1, []schedule.Choice{{Host: "a", Root: "root-a", Allocation: claim}}
	env.allocate("s", claim)
	e, err := c.steps.claim(t.Context(), s)
	if lost, is := e.(lifecycle.ClaimLost); err != nil || !is || lost.Try != 1 {
		t.Fatalf("%#v %v", e, err)
	}
	if held := env.placement.Held("s"); len(held) != 0 {
		t.Errorf("it holds %v", held)
	}
}

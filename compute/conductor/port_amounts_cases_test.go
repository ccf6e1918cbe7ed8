package conductor

import (
	"testing"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/compute/ports"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/placementtest"
	"github.com/openberth/berth/resource"
)

const egressRate, packetRate = bandwidth.EgressBandwidth, bandwidth.PacketRate

// amountsCase is an allocation of a server whose port r has 1 Mbit/s of nic-1, and what the port q must have.
type amountsCase struct {
	name   string
	held   resource.Allocation // of ports, when the amounts are set
	of     resource.Allocation // of the port q; empty: it has been detached
	want   resource.Allocation // of ports, afterwards
	writes int
}

// amountsCases has the rows G8 and G9.
func amountsCases() []amountsCase {
	type all = resource.Allocation
	type a = resource.Amounts
	sibling := all{"nic-1": a{egressRate: 1000}}
	both := all{"nic-1": a{egressRate: 3000}}
	return []amountsCase{
		{"G8 a further provider", sibling, all{"nic-2": a{egressRate: 2000}},
			all{"nic-1": a{egressRate: 1000}, "nic-2": a{egressRate: 2000}}, 1},
		{"G8 the same provider and class", sibling, all{"nic-1": a{egressRate: 2000}}, both, 1},
		{"G8 two providers", sibling, all{"nic-1": a{egressRate: 2000}, "agent-a": a{packetRate: 5}},
			all{"nic-1": a{egressRate: 3000}, "agent-a": a{packetRate: 5}}, 1},
		{"G8 done already", both, all{"nic-1": a{egressRate: 2000}}, both, 0},
		{"G8 nothing to add", sibling, nil, sibling, 0},
		{"G9 a part of the provider", both, nil, sibling, 1},
		{"G9 a provider", all{"nic-1": a{egressRate: 1000}, "nic-2": a{egressRate: 2000}}, nil, sibling, 1},
		{"G9 a class of a provider", all{"nic-1": a{egressRate: 1000}, "agent-a": a{packetRate: 5}}, nil, sibling, 1},
		{"G9 less than the port had", all{"nic-1": a{egressRate: 1500}}, nil, sibling, 1},
		{"G9 less than the other port has", all{"nic-1": a{egressRate: 400}}, nil, sibling, 1},
		{"G9 nothing is there", nil, nil, sibling, 1},
	}
}

// The amounts of a server are set to the sum over its ports and what the changed port must have: nothing is subtracted,
// so amounts that another client has changed do not prevent it. Amounts of the flavor stay.
func TestAmountsOfAttachedAndDetachedPorts(t *testing.T) {
	for _, test := range amountsCases() {
		t.Run(test.name, func(t *testing.T) {
			writes := &callErrors{op: "PutAllocations"}
			c := amountsCloud(t, writes.fail, test.held)
			if err := c.binder.SetAmounts(t.Context(), c.server, ports.Amounts{Port: "q", Of: test.of}); err != nil {
				t.Fatal(err)
			}
			if held, want := c.placement.Held("web"), c.base.Add(test.want); !held.Equal(want) ||
				writes.count() != test.writes {
				t.Errorf("Placement has %v, want %v; %d writes, want %d", held, want, writes.count(), test.writes)
			}
		})
	}
}

// amountsCloud is an attachCloud whose server has the bound port r, and an allocation for ports.
func amountsCloud(t *testing.T, fail failFunc, held resource.Allocation) attachCloud {
	t.Helper()
	c := newAttachCloud(t, fail)
	c.binder = c.conductor.Ports
	c.network.ports = append(c.network.ports, sibling())
	c.holds("web", c.base.Add(held))
	return c
}

// A concurrent update is tried again; any other refusal ends the change after one write. Both leave the allocation
// whole (row G10).
func TestRefusedAmountsOfAPort(t *testing.T) {
	concurrent := fault.New(fault.Conflict, "generation").WithCode(placement.CodeConcurrentUpdate)
	for name, test := range map[string]struct {
		errs []error
		ok   bool
	}{
		"once": {[]error{concurrent}, true}, "four times": {[]error{concurrent, concurrent, concurrent, concurrent}, true},
		"always":       {[]error{concurrent, concurrent, concurrent, concurrent, concurrent}, false},
		"no room":      {[]error{fault.New(fault.Conflict, "no room")}, false},
		"wrong":        {[]error{fault.New(fault.Invalid, "wrong")}, false},
		"out of reach": {[]error{fault.New(fault.Unavailable, "no answer")}, false},
	} {
		writes := &callErrors{op: "PutAllocations", errs: test.errs}
		sibling := resource.Allocation{"nic-1": {egressRate: 1000}}
		c := amountsCloud(t, writes.fail, sibling)
		of := resource.Allocation{"nic-2": {egressRate: 2000}}
		err := c.binder.SetAmounts(t.Context(), c.server, ports.Amounts{Port: "q", Of: of})
		want, calls := c.base.Add(sibling), len(test.errs)
		if test.ok {
			want, calls = want.Add(of), calls+1
		}
		if held := c.placement.Held("web"); (err == nil) != test.ok || !held.Equal(want) || writes.count() != calls {
			t.Errorf("%s: %v; Placement has %v, want %v; %d writes, want %d", name, err, held, want, writes.count(), calls)
		}
	}
}

// A port that requests nothing is attached without a query of candidates, and without a write (row G7).
func TestPortWithoutRequestNeedsNoCandidates(t *testing.T) {
	var calls []string
	c := newAttachCloud(t, func(call placementtest.Call) (before, after error) {
		if call.Op == "Candidates" || call.Op == "PutAllocations" {
			calls = append(calls, call.Op)
		}
		return nil, nil
	})
	c.network.ports[0].Request, c.network.ports[0].VNIC = nil, "normal"
	c.perform()
	if held := c.placement.Held("web"); len(calls) > 0 || c.network.ports[0].Host != "a" || !held.Equal(c.base) {
		t.Errorf("calls %v, port %+v, Placement has %v", calls, c.network.ports[0], held)
	}
}

package operations

import (
	"context"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/network/store"
	"github.com/openberth/berth/placement/placementtest"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

const (
	egr    = resource.Class("NET_BW_EGR_KILOBIT_PER_SEC")
	igr    = resource.Class("NET_BW_IGR_KILOBIT_PER_SEC")
	ppsIgr = resource.Class("NET_PACKET_RATE_IGR_KILOPACKET_PER_SEC")
	ppsEgr = resource.Class("NET_PACKET_RATE_EGR_KILOPACKET_PER_SEC")
	dscp   = "dscp_marking"
)

// changeRow is a row of the table C in docs/behaviour/network.md: the policies of a bound port before and after a
// change, and the allocation of its server afterwards.
type changeRow struct {
	name     string
	vnic     string
	from, to []store.Rule
	want     resource.Allocation
	code     string // of the fault; empty: the change is made
}

func changeRows() []changeRow {
	type a = resource.Amounts
	type all = resource.Allocation
	mark := store.Rule{Type: dscp, DSCP: 8}
	rules := func(r ...store.Rule) []store.Rule { return r }
	return []changeRow{
		{"C3 bandwidth", "direct", rules(bwRule("ingress", 1000)), rules(bwRule("ingress", 2000)),
			all{pf0: a{igr: 2000}}, ""},
		{"C4 packet rate", "normal", rules(ppsRule("ingress", 1000)), rules(ppsRule("ingress", 2000)),
			all{ovs: a{ppsIgr: 2000}}, ""},
		{"C5 both", "normal", rules(bwRule("ingress", 1000), ppsRule("ingress", 500)),
			rules(bwRule("ingress", 2000), ppsRule("ingress", 1000)), all{bridge: a{igr: 2000}, ovs: a{ppsIgr: 1000}}, ""},
		{"C6 direction", "normal", rules(bwRule("ingress", 1000), ppsRule("ingress", 500)),
			rules(bwRule("egress", 2000), ppsRule("egress", 1000)), all{bridge: a{egr: 2000}, ovs: a{ppsEgr: 1000}}, ""},
		{"C7 direction any", "normal", rules(ppsRule("ingress", 1000)), rules(ppsRule("any", 1000)),
			all{ovs: a{ppsIgr: 1000}}, PolicyRefused},
		{"C8 none before", "normal", nil, rules(bwRule("egress", 1000)), all{bridge: a{egr: 1000}}, ""},
		{"C8 a new type of rule", "normal", rules(bwRule("egress", 1000)), rules(bwRule("egress", 1000),
			ppsRule("egress", 500)), all{bridge: a{egr: 1000}, ovs: a{ppsEgr: 500}}, ""},
		{"C10 less", "normal", rules(bwRule("ingress", 2000), ppsRule("ingress", 2000)),
			rules(bwRule("ingress", 1000), ppsRule("ingress", 1000)), all{bridge: a{igr: 1000}, ovs: a{ppsIgr: 1000}}, ""},
		{"C12 no policy", "normal", rules(bwRule("ingress", 1000), ppsRule("ingress", 2000)), nil, all{}, ""},
		{"C13 other rules", "normal", rules(mark), rules(mark), all{}, ""},
		{"C13 from other rules", "normal", rules(mark), rules(bwRule("egress", 10)), all{bridge: a{egr: 10}}, ""},
		{"C13 to other rules", "normal", rules(bwRule("egress", 10)), rules(mark), all{}, ""},
		{"C14 equal values", "normal", rules(bwRule("egress", 10)), rules(bwRule("egress", 10)),
			all{bridge: a{egr: 10}}, ""},
		{"C15 no capacity", "normal", rules(bwRule("egress", 10)), rules(bwRule("egress", 10001)),
			all{bridge: a{egr: 10}}, placementConflict},
		{"C15 no capacity for a new rule", "normal", nil, rules(bwRule("egress", 10001)), all{}, placementConflict},
	}
}

func (r changeRow) providers() (map[string]provider.ID, map[string]any) {
	if r.vnic == "direct" {
		return map[string]provider.ID{"minimum_bandwidth": pf0}, map[string]any{"pci_slot": "0000:06:02.0",
			"pci_vendor_info": "8086:1520", "physical_network": "physnet0"}
	}
	return map[string]provider.ID{"minimum_bandwidth": bridge, "minimum_packet_rate": ovs}, nil
}

func TestPolicyOfABoundPort(t *testing.T) {
	for _, row := range changeRows() {
		t.Run(row.name, func(t *testing.T) {
			c := newCloud(t)
			on, profile := row.providers()
			from, to := c.policy(t, row.from...), c.policy(t, row.to...)
			before := c.boundPort(t, row.vnic, from, on, profile)
			_, err := c.setPolicy(t.Context(), before.ID, to)
			if fault.CodeOf(err) != row.code || (err == nil) != (row.code == "") {
				t.Fatalf("code %q (%v), want %q", fault.CodeOf(err), err, row.code)
			}
			c.check(t, before, to, row)
		})
	}
}

// check compares the allocation of the server and the port with a row.
func (c *cloud) check(t *testing.T, before store.Port, to string, row changeRow) {
	t.Helper()
	if got := c.shares(); !reflect.DeepEqual(got, row.want) {
		t.Errorf("allocation %v, want %v", got, row.want)
	}
	after, err := Get[store.Port](t.Context(), c.Service, before.ID)
	must(t, err)
	if row.code != "" {
		if !reflect.DeepEqual(after, before) {
			t.Errorf("the port has changed: %+v, was %+v", after, before)
		}
		return
	}
	if after.Policy != to {
		t.Errorf("policy %q, want %q", after.Policy, to)
	}
	for key, value := range before.Binding.Profile {
		if key != "allocation" && after.Binding.Profile[key] != value {
			t.Errorf("profile %s is %v, was %v", key, after.Binding.Profile[key], value)
		}
	}
	c.checkProfile(t, after)
}

// checkProfile compares the allocation in the profile of a port with its request groups.
func (c *cloud) checkProfile(t *testing.T, p store.Port) {
	t.Helper()
	n, err := Get[store.Network](t.Context(), c.Service, p.Network)
	must(t, err)
	policy := p.Policy
	if policy == "" {
		policy = n.Policy
	}
	found := store.Policy{}
	if policy != "" {
		found, err = Get[store.Policy](t.Context(), c.Service, policy)
		must(t, err)
	}
	allocation, _ := p.Binding.Profile["allocation"].(map[string]any)
	groups := Groups(p, n, found)
	if len(allocation) != len(groups) {
		t.Errorf("allocation %v for %d groups", allocation, len(groups))
	}
	for _, g := range groups {
		if allocation[g.ID] == nil {
			t.Errorf("group %s has no provider in %v", g.ID, allocation)
		}
	}
}

// TestCrashDuringPolicyChange ends the process at each call of Placement, before and after its effect. Afterwards the
// next process completes the change: the port and the allocation agree.
func TestCrashDuringPolicyChange(t *testing.T) {
	for _, after := range []bool{false, true} {
		for at := range 6 {
			c := newCloud(t)
			from, to := c.policy(t, bwRule("egress", 1000)), c.policy(t, bwRule("egress", 3000), ppsRule("egress", 7))
			p := c.boundPort(t, "normal", from, map[string]provider.ID{"minimum_bandwidth": bridge}, nil)
			ctx, crash := context.WithCancel(t.Context())
			calls := 0
			died := fault.New(fault.Unavailable, "the process has ended")
			c.fail = func(placementtest.Call) (error, error) {
				calls++
				switch {
				case calls == at+1 && after:
					crash()
					return nil, died
				case calls > at:
					crash()
					return died, nil
				}
				return nil, nil
			}
			_, err := c.setPolicy(ctx, p.ID, to)
			c.fail = nil
			must(t, c.Resume(t.Context(), 0))
			crash()
			now, readErr := Get[store.Port](t.Context(), c.Service, p.ID)
			must(t, readErr)
			want := resource.Allocation{bridge: {egr: 1000}}
			if now.Policy == to {
				want = resource.Allocation{bridge: {egr: 3000}, ovs: {ppsEgr: 7}}
			} else if err == nil {
				t.Errorf("call %d after %v: the change succeeded, and the port has the old policy", at, after)
			}
			if got := c.shares(); !reflect.DeepEqual(got, want) {
				t.Errorf("call %d after %v: allocation %v, want %v", at, after, got, want)
			}
			c.checkProfile(t, now)
			if left, err := List[store.Change](t.Context(), c.Service, store.Filter{}); err != nil || len(left) > 0 {
				t.Errorf("unfinished changes: %v %v", left, err)
			}
		}
	}
}

// TestPolicyChangeRepeatsAfterAConcurrentUpdate changes the allocation of the server between read and write.
func TestPolicyChangeRepeatsAfterAConcurrentUpdate(t *testing.T) {
	c := newCloud(t)
	from, to := c.policy(t, bwRule("egress", 1000)), c.policy(t, bwRule("egress", 3000))
	p := c.boundPort(t, "normal", from, map[string]provider.ID{"minimum_bandwidth": bridge}, nil)
	raced := false
	c.fail = func(call placementtest.Call) (error, error) {
		if call.Op == "PutAllocations" && !raced {
			raced = true
			held, err := c.placement.Allocation(context.Background(), server)
			must(t, err)
			held.Allocation[root] = resource.Amounts{"VCPU": 2}
			must(t, c.placement.PutAllocation(context.Background(), server, held))
		}
		return nil, nil
	}
	_, err := c.setPolicy(t.Context(), p.ID, to)
	must(t, err)
	want := resource.Allocation{root: {"VCPU": 2}, bridge: {egr: 3000}}
	if got := c.placement.Held(server); !raced || !reflect.DeepEqual(got, want) {
		t.Errorf("raced %v, allocation %v, want %v", raced, got, want)
	}
}

// TestPortsOfOneServerChangeAtTheSameTime changes the policies of several ports on one provider at once: the amounts of
// all are counted, also where the change of one port has the amounts of another one as its result.
func TestPortsOfOneServerChangeAtTheSameTime(t *testing.T) { concurrentPolicies(t, newCloud(t)) }

func concurrentPolicies(t *testing.T, c *cloud) {
	t.Helper()
	from, to := c.policy(t, bwRule("egress", 1000)), c.policy(t, bwRule("egress", 1500))
	on := map[string]provider.ID{"minimum_bandwidth": bridge}
	ports := []store.Port{}
	for range 3 {
		ports = append(ports, c.boundPort(t, "normal", from, on, nil))
	}
	errs := parallel(len(ports), func(i int) error {
		_, err := c.setPolicy(context.Background(), ports[i].ID, to)
		return err
	})
	want := 0
	for i, err := range errs {
		now, readErr := Get[store.Port](t.Context(), c.Service, ports[i].ID)
		must(t, readErr)
		if (now.Policy == to) != (err == nil) {
			t.Errorf("port %d has policy %q after %v", i, now.Policy, err)
		}
		want += map[bool]int{true: 1500, false: 1000}[now.Policy == to]
	}
	if got := c.shares(); !reflect.DeepEqual(got, resource.Allocation{bridge: {egr: want}}) {
		t.Errorf("allocation %v, want %d", got, want)
	}
}

// TestCoincidingAllocation: before Placement receives a change, another client sets the amounts that the change would
// have as its result. The change is computed again.
func TestCoincidingAllocation(t *testing.T) {
	c := newCloud(t)
	from, to := c.policy(t, bwRule("egress", 1000)), c.policy(t, bwRule("egress", 1500))
	p := c.boundPort(t, "normal", from, map[string]provider.ID{"minimum_bandwidth": bridge}, nil)
	reads := 0
	c.fail = func(call placementtest.Call) (error, error) {
		if call.Op == "Allocation" {
			if reads++; reads == 2 { // after the plan
				held, err := c.placement.Allocation(context.Background(), server)
				must(t, err)
				held.Allocation[bridge] = resource.Amounts{egr: 1500} // 500 for another port
				must(t, c.placement.PutAllocation(context.Background(), server, held))
			}
		}
		return nil, nil
	}
	_, err := c.setPolicy(t.Context(), p.ID, to)
	must(t, err)
	if got, want := c.shares(), (resource.Allocation{bridge: {egr: 2000}}); !reflect.DeepEqual(got, want) {
		t.Errorf("allocation %v, want %v", got, want)
	}
}

// TestMovedServerKeepsItsAllocation: another client replaces the allocation while a change is recorded.
func TestMovedServerKeepsItsAllocation(t *testing.T) {
	c := newCloud(t)
	from, to := c.policy(t, bwRule("egress", 1000)), c.policy(t, bwRule("egress", 3000))
	p := c.boundPort(t, "normal", from, map[string]provider.ID{"minimum_bandwidth": bridge}, nil)
	c.fail = func(call placementtest.Call) (error, error) {
		if call.Op == "PutAllocations" {
			return fault.New(fault.Unavailable, "no answer"), nil
		}
		return nil, nil
	}
	if _, err := c.setPolicy(t.Context(), p.ID, to); !fault.Is(err, fault.Unavailable) {
		t.Fatal(err)
	}
	if _, err := c.setPolicy(t.Context(), p.ID, ""); fault.CodeOf(err) != "AllocationChangePending" {
		t.Errorf("a second change: %v", err)
	}
	c.fail = nil
	held, err := c.placement.Allocation(t.Context(), server)
	must(t, err)
	held.Allocation = resource.Allocation{root: {"VCPU": 1}, pf0: {egr: 1000}}
	must(t, c.placement.PutAllocation(t.Context(), server, held))
	must(t, c.Resume(t.Context(), 0))
	if got, want := c.shares(), (resource.Allocation{pf0: {egr: 1000}}); !reflect.DeepEqual(got, want) {
		t.Errorf("allocation %v, want %v", got, want)
	}
	if now, err := Get[store.Port](t.Context(), c.Service, p.ID); err != nil || now.Policy != from {
		t.Errorf("policy %q, want %q; %v", now.Policy, from, err)
	}
}

// TestChangeWaitsForASlowOne: a change of a consumer whose other change waits for a slow Placement is made after it,
// and so is an operation on a binding of its port.
func TestChangeWaitsForASlowOne(t *testing.T) {
	c := newCloud(t)
	from, to := c.policy(t, bwRule("egress", 1000)), c.policy(t, bwRule("egress", 1500))
	p := c.boundPort(t, "normal", from, map[string]provider.ID{"minimum_bandwidth": bridge}, nil)
	asked := make(chan bool)
	var once sync.Once
	c.fail = func(call placementtest.Call) (error, error) {
		if call.Op == "PutAllocations" {
			once.Do(func() {
				close(asked)
				time.Sleep(time.Second) // longer than a quick Placement takes under load
			})
		}
		return nil, nil
	}
	slow := make(chan error)
	go func() {
		_, err := c.setPolicy(context.Background(), p.ID, to)
		slow <- err
	}()
	<-asked
	if err := (Bindings{c.Service}).Delete(t.Context(), p.ID, "cmp3"); fault.CodeOf(err) != "PortBindingNotFound" {
		t.Errorf("a binding that does not exist: %v", err)
	}
	_, err := c.setPolicy(t.Context(), p.ID, from)
	must(t, err)
	must(t, <-slow)
	if got, want := c.shares(), (resource.Allocation{bridge: {egr: 1000}}); !reflect.DeepEqual(got, want) {
		t.Errorf("allocation %v, want %v", got, want)
	}
}

// TestWaitingOnlyReads: a request that waits for an unfinished change does not begin again, with a transaction that
// writes, until the change has ended.
func TestWaitingOnlyReads(t *testing.T) {
	c := newCloud(t)
	from, to := c.policy(t, bwRule("egress", 1000)), c.policy(t, bwRule("egress", 1500))
	p := c.boundPort(t, "normal", from, map[string]provider.ID{"minimum_bandwidth": bridge}, nil)
	c.fail = func(call placementtest.Call) (error, error) {
		if call.Op == "PutAllocations" {
			return fault.New(fault.Unavailable, "down"), nil
		}
		return nil, nil
	}
	if _, err := c.setPolicy(t.Context(), p.ID, to); !fault.Is(err, fault.Unavailable) {
		t.Fatal(err)
	}
	rename := func(wait time.Duration) (tries int, err error) {
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		defer cancel()
		_, err = c.UpdatePort(ctx, p.ID, NoRevision, func(p *store.Port) ([]store.FixedIP, bool, error) {
			tries++
			p.Name = "new"
			return nil, false, nil
		})
		return tries, err
	}
	tries, err := rename(2 * time.Second)
	if fault.CodeOf(err) != pending || !strings.Contains(fault.TextOf(err), "a change of "+p.ID+" waits") || tries != 1 {
		t.Errorf("%d tries: %v", tries, err)
	}
	c.fail = nil
	ended := make(chan error)
	go func() {
		time.Sleep(50 * time.Millisecond)
		ended <- c.Resume(context.Background(), 0)
	}()
	tries, err = rename(testenv.Patience)
	must(t, err)
	must(t, <-ended)
	if tries > 3 { // refused once, then previewed and made
		t.Errorf("%d tries", tries)
	}
}

// TestRejectedAccount: an account that Placement rejects is not a fault of the client; the recorded change is made
// later.
func TestRejectedAccount(t *testing.T) {
	c := newCloud(t)
	from, to := c.policy(t, bwRule("egress", 1000)), c.policy(t, bwRule("egress", 3000))
	p := c.boundPort(t, "normal", from, map[string]provider.ID{"minimum_bandwidth": bridge}, nil)
	for _, op := range []string{"Allocation", "PutAllocations"} {
		c.fail = func(call placementtest.Call) (error, error) {
			if call.Op == op {
				return fault.New(fault.Forbidden, "no"), nil
			}
			return nil, nil
		}
		if _, err := c.setPolicy(t.Context(), p.ID, to); !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: %v", op, err)
		}
	}
	c.fail = nil
	must(t, c.Resume(t.Context(), 0))
	if got, want := c.shares(), (resource.Allocation{bridge: {egr: 3000}}); !reflect.DeepEqual(got, want) {
		t.Errorf("the recorded change: allocation %v, want %v", got, want)
	}
}

// TestResumeLeavesYoungChanges: a change of a running request is completed by that request.
func TestResumeLeavesYoungChanges(t *testing.T) {
	c := newCloud(t)
	now := time.Now()
	clock(c.Service, now)
	must(t, c.Store.Write(t.Context(), func(tx *store.Tx) error {
		return c.record(t.Context(), tx, &store.Change{})
	}))
	must(t, c.Resume(t.Context(), time.Minute))
	if left, err := List[store.Change](t.Context(), c.Service, store.Filter{}); err != nil || len(left) != 1 {
		t.Fatalf("%v %v", left, err)
	}
	clock(c.Service, now.Add(time.Hour))
	must(t, c.Resume(t.Context(), time.Minute))
	if left, err := List[store.Change](t.Context(), c.Service, store.Filter{}); err != nil || len(left) != 0 {
		t.Fatalf("%v %v", left, err)
	}
}

// TestNetworkPolicy has row C17: the ports of the network without a policy of their own change, all or none.
func TestNetworkPolicy(t *testing.T) {
	c := newCloud(t)
	ctx := t.Context()
	from, to, tooMuch := c.policy(t, bwRule("egress", 1000)), c.policy(t, bwRule("egress", 3000)),
		c.policy(t, bwRule("egress", 6000))
	set := func(policy string) error {
		_, err := c.UpdateNetwork(ctx, c.network.ID, NoRevision, func(n *store.Network) error {
			n.Policy = policy
			return nil
		})
		return err
	}
	must(t, set(from))
	on := map[string]provider.ID{"minimum_bandwidth": bridge}
	one := c.boundPortOf(t, "normal", "", from, on, map[string]any{"key": "kept"})
	two := c.boundPortOf(t, "normal", "", from, on, nil)
	own := c.boundPort(t, "normal", from, on, nil)
	want := func(egress int, policy string) {
		t.Helper()
		if got := c.shares(); !reflect.DeepEqual(got, resource.Allocation{bridge: {egr: egress}}) {
			t.Errorf("allocation %v, want %d", got, egress)
		}
		n, err := Get[store.Network](ctx, c.Service, c.network.ID)
		if err != nil || n.Policy != policy {
			t.Errorf("policy of the network %q, want %q; %v", n.Policy, policy, err)
		}
		for _, id := range []string{one.ID, two.ID, own.ID} {
			p, err := Get[store.Port](ctx, c.Service, id)
			must(t, err)
			c.checkProfile(t, p)
			if id == one.ID && p.Binding.Profile["key"] != "kept" {
				t.Errorf("the profile has lost a key: %v", p.Binding.Profile)
			}
		}
	}
	want(3000, from)
	must(t, set(to))
	want(7000, to)
	if err := set(tooMuch); fault.CodeOf(err) != placementConflict {
		t.Errorf("too much: %v", err)
	}
	want(7000, to)
	must(t, set(""))
	want(1000, "")
	if _, err := c.setPolicy(ctx, own.ID, ""); err != nil {
		t.Error(err)
	}
	if got := c.shares(); len(got) != 0 {
		t.Errorf("allocation %v", got)
	}
}

// TestClearedPortPolicyLeavesThatOfTheNetwork: the effective policy decides, not the port's own one.
func TestClearedPortPolicyLeavesThatOfTheNetwork(t *testing.T) {
	c := newCloud(t)
	ofNetwork, ofPort := c.policy(t, bwRule("egress", 500)), c.policy(t, bwRule("egress", 1000))
	_, err := c.UpdateNetwork(t.Context(), c.network.ID, NoRevision, func(n *store.Network) error {
		n.Policy = ofNetwork
		return nil
	})
	must(t, err)
	p := c.boundPort(t, "normal", ofPort, map[string]provider.ID{"minimum_bandwidth": bridge}, nil)
	p, err = c.setPolicy(t.Context(), p.ID, "")
	must(t, err)
	c.checkProfile(t, p)
	if got, want := c.shares(), (resource.Allocation{bridge: {egr: 500}}); !reflect.DeepEqual(got, want) {
		t.Errorf("allocation %v, want %v", got, want)
	}
}

// TestDeletedPortReleasesItsAllocation deletes a bound port, also if the process ends at a call of Placement.
func TestDeletedPortReleasesItsAllocation(t *testing.T) {
	for at := range 4 {
		for _, after := range []bool{false, true} {
			c := newCloud(t)
			policy := c.policy(t, bwRule("egress", 1000), ppsRule("egress", 5))
			on := map[string]provider.ID{"minimum_bandwidth": bridge, "minimum_packet_rate": ovs}
			p, other := c.boundPort(t, "normal", policy, on, nil), c.boundPort(t, "normal", policy, on, nil)
			calls := 0
			c.fail = func(placementtest.Call) (error, error) {
				calls++
				died := fault.New(fault.Unavailable, "no answer")
				switch {
				case calls == at+1 && after:
					return nil, died
				case calls > at:
					return died, nil
				}
				return nil, nil
			}
			failed := c.DeletePort(t.Context(), p.ID, NoRevision)
			c.fail = nil
			must(t, c.Resume(t.Context(), 0))
			if err := c.DeletePort(t.Context(), p.ID, NoRevision); err != nil && !fault.Is(err, fault.NotFound) {
				t.Fatalf("%v after %v", err, failed)
			}
			want := resource.Allocation{bridge: {egr: 1000}, ovs: {ppsEgr: 5}}
			if got := c.shares(); !reflect.DeepEqual(got, want) {
				t.Errorf("call %d after %v: allocation %v, want that of the other port %v", at, after, got, want)
			}
			must(t, c.DeletePort(t.Context(), other.ID, NoRevision))
			if got := c.shares(); len(got) != 0 {
				t.Errorf("allocation %v", got)
			}
		}
	}
}

// TestDeletedPortOfAServerWithoutAllocation: another client has released the allocation before.
func TestDeletedPortOfAServerWithoutAllocation(t *testing.T) {
	c := newCloud(t)
	policy := c.policy(t, bwRule("egress", 1000))
	p := c.boundPort(t, "normal", policy, map[string]provider.ID{"minimum_bandwidth": bridge}, nil)
	must(t, c.placement.DeleteAllocation(t.Context(), server))
	if _, err := c.setPolicy(t.Context(), p.ID, ""); fault.CodeOf(err) != "PlacementAllocationRemoved" {
		t.Errorf("a change: %v", err)
	}
	must(t, c.DeletePort(t.Context(), p.ID, NoRevision))
	if _, err := Get[store.Port](t.Context(), c.Service, p.ID); !fault.Is(err, fault.NotFound) {
		t.Error(err)
	}
}

// TestAllocationAsText: before the extension port-resource-request-groups the allocation in the profile was one text.
func TestAllocationAsText(t *testing.T) {
	c := newCloud(t)
	ctx := t.Context()
	from, to := c.policy(t, bwRule("ingress", 1000)), c.policy(t, bwRule("ingress", 400))
	p := c.boundPort(t, "direct", from, map[string]provider.ID{"minimum_bandwidth": pf0}, nil)
	p, err := c.UpdatePort(ctx, p.ID, NoRevision, func(p *store.Port) ([]store.FixedIP, bool, error) {
		p.Binding.Profile = map[string]any{"allocation": string(pf0), "pci_slot": "0000:06:02.0"}
		return nil, false, nil
	})
	if err != nil || p.Binding.VIF != "hw_veb" {
		t.Fatalf("%+v %v", p.Binding, err)
	}
	p, err = c.setPolicy(ctx, p.ID, to)
	must(t, err)
	c.checkProfile(t, p)
	if got, want := c.shares(), (resource.Allocation{pf0: {igr: 400}}); !reflect.DeepEqual(got, want) ||
		p.Binding.Profile["pci_slot"] != "0000:06:02.0" {
		t.Errorf("allocation %v, want %v; profile %v", got, want, p.Binding.Profile)
	}
}

// TestRulesInUse has row Q11: rules with a guarantee do not change while a server's port has the policy.
func TestRulesInUse(t *testing.T) {
	c := newCloud(t)
	policies := Policies{c.Service}
	id := c.policy(t, bwRule("egress", 1000))
	_, err := c.CreatePort(t.Context(), store.Port{Network: c.network.ID, Policy: id,
		Binding: store.Binding{VNIC: "normal"}}, nil)
	must(t, err)
	_, err = policies.PutRule(t.Context(), id, bwRule("ingress", 5))
	must(t, err)
	c.boundPort(t, "normal", id, map[string]provider.ID{"minimum_bandwidth": bridge}, nil)
	found, err := Get[store.Policy](t.Context(), c.Service, id)
	must(t, err)
	changed := found.Rules[0]
	changed.Min++
	_, create := policies.PutRule(t.Context(), id, ppsRule("any", 5))
	_, update := policies.PutRule(t.Context(), id, changed)
	remove := policies.DeleteRule(t.Context(), id, "minimum_bandwidth", changed.ID)
	for _, err := range []error{create, update, remove} {
		if fault.CodeOf(err) != RuleInUse {
			t.Errorf("%v", err)
		}
	}
	if now, err := Get[store.Policy](t.Context(), c.Service, id); err != nil || !reflect.DeepEqual(now, found) {
		t.Errorf("the policy has changed: %+v, was %+v; %v", now, found, err)
	}
	if _, err := policies.PutRule(t.Context(), id, store.Rule{Type: dscp, DSCP: 8}); err != nil {
		t.Errorf("a rule without a guarantee: %v", err)
	}
	if err := policies.DeletePolicy(t.Context(), id, NoRevision); fault.CodeOf(err) != "QosPolicyInUse" {
		t.Error(err)
	}
}

package conductor

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/store"
)

// group stores a server group and returns its id.
func (c *cloud) group(policy schedule.GroupPolicy, maxPerHost int) string {
	c.t.Helper()
	g := store.ServerGroup{ID: string(policy), Policy: policy, MaxPerHost: maxPerHost}
	if err := c.store.CreateServerGroup(c.t.Context(), g, store.ProjectLimits{}); err != nil {
		c.t.Fatal(err)
	}
	return g.ID
}

// createInGroup creates servers at the same time and waits until their states are final. Half of them request no
// device, so that they are chosen among candidates and not planned on the hosts.
func (c *cloud) createInGroup(group string, n int) {
	c.t.Helper()
	var all sync.WaitGroup
	for i := range n {
		s := server(fmt.Sprint("s", i))
		if s.Group = group; i%2 == 0 {
			s.Requests, s.Ask.Groups = nil, s.Ask.Groups[1:]
		}
		all.Go(func() {
			if _, err := c.conductor().Create(c.t.Context(), s); err != nil {
				c.t.Error(err)
			}
		})
	}
	all.Wait()
	c.waitSettled()
}

// activeOn returns how many servers are active on each host.
func (c *cloud) activeOn() map[string]int {
	on := map[string]int{}
	for _, s := range c.servers() {
		if s.State == lifecycle.Active {
			on[s.Host]++
		}
	}
	return on
}

// roomy returns a started cloud whose hosts have room for all servers of a test.
func roomy(t *testing.T, hosts int) *cloud {
	all := map[string]int{}
	for i := range hosts {
		all[fmt.Sprint("h", i)] = 32
	}
	c := newCloud(t, all)
	c.store.SetQuotas(nil, nil) // a group may have any number of members
	c.start(t.Context(), c.store, c.client(nil))
	return c
}

// 64 servers are created at the same time in a group on few hosts. Each host gets as many as the policy permits, and
// the others are refused with the reason.
func TestConcurrentAntiAffinity(t *testing.T) {
	c := roomy(t, 5)
	c.createInGroup(c.group(schedule.AntiAffinity, 2), 64)
	on := c.activeOn()
	for host, n := range on {
		if n != 2 {
			t.Errorf("%s has %d members", host, n)
		}
	}
	if len(on) != 5 || c.count(lifecycle.Error) != 54 {
		t.Errorf("%v, %d in ERROR\n%s", on, c.count(lifecycle.Error), c.histories())
	}
	for _, s := range c.servers() {
		if s.State == lifecycle.Error && !strings.Contains(s.Fault.Message, "policy anti-affinity") {
			t.Errorf("%s: %s", s.ID, s.Fault.Message)
		}
	}
	c.checkConsistent("settled")
}

// 64 servers are created at the same time in a group with the policy affinity: all get one host.
func TestConcurrentAffinity(t *testing.T) {
	c := roomy(t, 5)
	c.createInGroup(c.group(schedule.Affinity, 0), 64)
	if on := c.activeOn(); len(on) != 1 || c.count(lifecycle.Active) != 64 {
		t.Errorf("%v\n%s", on, c.histories())
	}
	c.checkConsistent("settled")
}

// The soft policies order the hosts, and no server is refused.
func TestSoftPolicies(t *testing.T) {
	c := roomy(t, 3)
	for _, policy := range []schedule.GroupPolicy{schedule.SoftAffinity, schedule.SoftAntiAffinity} {
		group := c.group(policy, 0)
		var hosts []string
		for i := range 6 {
			s := server(fmt.Sprint(policy, i))
			s.Group = group
			if _, err := c.conductor().Create(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			c.waitSettled()
			s, err := c.store.Read(t.Context(), s.ID)
			if err != nil {
				t.Fatal(err)
			}
			hosts = append(hosts, s.Host)
		}
		on := map[string]int{}
		for _, host := range hosts {
			on[host]++
		}
		if want := map[schedule.GroupPolicy]int{schedule.SoftAffinity: 1, schedule.SoftAntiAffinity: 3}; len(on) !=
			want[policy] || on[""] > 0 {
			t.Errorf("%s: %v", policy, hosts)
		}
	}
}

// A move keeps the policy: a member of an anti-affinity group is not moved to a host of another member, and a member of
// an affinity group not away from the others. In a deleted group nothing is restricted.
func TestMovesKeepThePolicy(t *testing.T) {
	for _, policy := range []schedule.GroupPolicy{schedule.AntiAffinity, schedule.Affinity} {
		for _, action := range []lifecycle.Action{lifecycle.Migrate, lifecycle.Live} {
			t.Run(fmt.Sprint(policy, " ", action), func(t *testing.T) {
				c := roomy(t, 2)
				group := c.group(policy, 0)
				for _, id := range []string{"s", "other"} {
					s := server(id)
					s.Group, s.Requests, s.Ask.Groups = group, nil, s.Ask.Groups[1:]
					if _, err := c.conductor().Create(t.Context(), s); err != nil {
						t.Fatal(err)
					}
					c.waitSettled()
				}
				before := c.server()
				c.act(lifecycle.ActionRequested{ID: "m1", Action: action})
				c.waitSettled()
				after := c.server()
				if after.Host != before.Host || after.Refusal == nil ||
					!strings.Contains(after.Refusal.Message, "policy "+string(policy)) {
					t.Fatalf("%s → %s: %+v\n%s", before.Host, after.Host, after.Refusal, c.histories())
				}
				if err := c.store.DeleteServerGroup(t.Context(), group); err != nil {
					t.Fatal(err)
				}
				c.act(lifecycle.ActionRequested{ID: "m2", Action: action})
				c.waitSettled()
				if s := c.server(); s.Host == before.Host {
					t.Errorf("it is still on %s: %s\n%s", s.Host, s.Stage(), c.histories())
				}
			})
		}
	}
}

// All members of an affinity group are on a dead host. They are evacuated at the same time, and come together on
// another host; also if the group has been on two hosts, of which both are dead.
func TestEvacuatedAffinityGroup(t *testing.T) {
	c := roomy(t, 5)
	c.createInGroup(c.group(schedule.Affinity, 0), 6)
	for round := range 2 {
		from := map[string]bool{}
		for host := range c.activeOn() {
			from[host] = true
			c.agents.pause(host, true)
			if err := c.conductor().HostDown(t.Context(), host); err != nil {
				t.Fatal(err)
			}
		}
		var all sync.WaitGroup
		for i, s := range c.servers() {
			if round == 0 && i == 5 {
				continue // it stays on the first host, which does not keep the others from leaving the second one
			}
			all.Go(func() {
				request := lifecycle.ActionRequested{ID: fmt.Sprint("m", round, i), Action: lifecycle.Evacuate}
				if _, err := c.conductor().Act(t.Context(), s.ID, request); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		c.waitSettled()
		on := c.activeOn()
		for host := range from {
			delete(on, host)
		}
		if len(on) != 1 {
			t.Fatalf("round %d: %v, evacuated from %v\n%s", round, c.activeOn(), from, c.histories())
		}
		if round == 1 && len(c.activeOn()) != 1 {
			t.Errorf("%v", c.activeOn())
		}
	}
}

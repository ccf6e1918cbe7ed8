package conductor

import (
	"maps"
	"slices"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/resource"
)

// checkConsistent checks that Placement, the agents and the records agree when all servers are settled: each
// residence of a server has an allocation of exactly the chosen providers, and a guest with a device from each of
// them in its host's assignments. No other consumer has an allocation, and no device belongs to two guests.
func (c *cloud) checkConsistent(when string) {
	c.t.Helper()
	c.agents.mu.Lock()
	defer c.agents.mu.Unlock()
	consumers, guests := map[string]bool{}, map[string]bool{}
	for _, s := range c.servers() {
		if s.State == lifecycle.Error && s.Fault == nil {
			c.t.Errorf("%s: %s failed without a fault", when, s.ID)
		}
		for _, residence := range s.Residences() {
			consumers[residence.Consumer] = true
			held, want := devices(c.placement.Held(resource.ConsumerID(residence.Consumer))), resource.Allocation{}
			for _, r := range residence.Requests {
				for _, p := range r.Providers {
					want[p] = resource.Amounts{class: want[p][class] + 1}
				}
			}
			if !held.Equal(want) && len(residence.Requests)+len(held) > 0 {
				c.t.Errorf("%s: %s is on %s as %s and holds %v, not %v", when, s.ID, residence.Host, residence.Consumer, held, want)
			}
		}
		for _, e := range s.Entries() {
			guests[e.Host+" "+e.Consumer] = true
			c.checkGuest(when, e)
		}
	}
	for _, id := range c.placement.Consumers() {
		if !consumers[string(id)] {
			c.t.Errorf("%s: %s holds %v, and is of no server", when, id, c.placement.Held(id))
		}
	}
	for host, of := range c.agents.guests {
		taken := map[string]string{}
		for id, g := range of {
			if !guests[host+" "+id] {
				c.t.Errorf("%s: %s has a guest %s that is of no server", when, host, id)
			}
			for _, d := range g.devices {
				if taken[d.Address] != "" {
					c.t.Errorf("%s: %s on %s is held by %s and %s", when, d.Address, host, id, taken[d.Address])
				}
				taken[d.Address] = id
			}
		}
	}
	if c.t.Failed() {
		c.t.Log(c.histories())
	}
}

// checkGuest checks that the agent has the guest of an entry, with its devices and its power state.
func (c *cloud) checkGuest(when string, e lifecycle.Entry) {
	c.t.Helper()
	g := c.agents.guests[e.Host][e.Consumer]
	if g == nil {
		c.t.Errorf("%s: %s has no guest %s", when, e.Host, e.Consumer)
		return
	}
	if g.runs != (e.Power == lifecycle.On) {
		c.t.Errorf("%s: guest %s on %s runs: %v", when, e.Consumer, e.Host, g.runs)
	}
	want := map[string]int{}
	for _, r := range e.Requests {
		for _, p := range r.Providers {
			want[r.ID+" "+string(p)]++
		}
	}
	got := map[string]int{}
	for _, d := range g.devices {
		got[d.RequestID+" "+string(d.Provider)]++
	}
	if !maps.Equal(want, got) || !slices.Equal(g.devices, e.Residence.Devices) {
		c.t.Errorf("%s: guest %s on %s has %v, the record says %v, chosen were %v", when, e.Consumer, e.Host, g.devices,
			e.Residence.Devices, want)
	}
}

// agentsDone reports whether the agents have delivered their reports and have the guests of the assignments.
func (c *cloud) agentsDone() bool {
	c.agents.mu.Lock()
	defer c.agents.mu.Unlock()
	for _, list := range c.agents.pending {
		if len(list) > 0 {
			return false
		}
	}
	shall := 0
	for _, e := range c.server().Entries() {
		g := c.agents.guests[e.Host][e.Consumer]
		if g == nil || g.runs != (e.Power == lifecycle.On) || g.build != c.server().Builds {
			return false
		}
		shall++
	}
	for _, guests := range c.agents.guests {
		shall -= len(guests)
	}
	return shall == 0
}

package conductor

import (
	"slices"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/resource"
)

// at is a configuration whose wall clock a test sets.
func at(now *time.Time) func(*Config) {
	return func(c *Config) { c.Now = func() time.Time { return *now } }
}

// auditor makes a conductor whose runner does not run, and stops the agents.
func (c *cloud) auditor(p Placement, change ...func(*Config)) *Conductor {
	c.agents.mu.Lock()
	defer c.agents.mu.Unlock()
	for host := range c.agents.devices {
		c.agents.paused[host] = true
	}
	config := quiet(c.t)
	for _, set := range change {
		set(&config)
	}
	return New(c.store, p, config)
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

// changeReport stores the report of a host with a change.
func (c *cloud) changeReport(host string, change func(*schedule.Host)) {
	c.t.Helper()
	c.report(host)
	h, err := c.store.Host(c.t.Context(), host)
	if err != nil {
		c.t.Fatal(err)
	}
	h.Devices = slices.Clone(h.Devices)
	change(&h)
	c.put(h)
}

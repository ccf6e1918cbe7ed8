package conductor

import (
	"testing"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// shareDisks gives all hosts the disk space of one sharing provider, as an operator does for shared directories.
func (c *cloud) shareDisks() {
	aggregate := []resource.AggregateID{"aaaaaaaa-0000-4000-8000-000000000001"}
	c.placement.SetProvider(provider.Provider{ID: "nfs", Name: "nfs", Aggregates: aggregate,
		Traits:      []resource.Trait{"MISC_SHARES_VIA_AGGREGATE"},
		Inventories: map[resource.Class]resource.Inventory{"DISK_GB": resource.Whole(1000)}})
	for host := range c.agents.devices {
		c.placement.SetProvider(provider.Provider{ID: provider.ID("root-" + host), Name: host, Aggregates: aggregate,
			Traits: []resource.Trait{"CUSTOM_FAST"},
			Inventories: map[resource.Class]resource.Inventory{"VCPU": resource.Whole(64),
				"MEMORY_MB": resource.Whole(65536)}})
	}
}

// A server whose DISK_GB is of a sharing provider moves to the host that is named, by each kind of move.
func TestMovesToHostWithSharedDisk(t *testing.T) {
	hosts := map[string]int{"a": 2, "b": 2, "c": 2, "d": 2}
	for _, withDevice := range []bool{true, false} {
		c := newCloud(t, hosts)
		c.shareDisks()
		c.start(t.Context(), c.store, c.client(nil))
		s := server("s")
		s.Requests[0].Requirement.LiveMigratable = pci.Yes
		if !withDevice {
			s.Requests, s.Ask.Groups = nil, nil
		}
		s.Ask.Groups = append(s.Ask.Groups[:min(1, len(s.Ask.Groups))], resource.Group{
			Required:  [][]resource.Trait{{"CUSTOM_FAST"}},
			Resources: resource.Amounts{"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 20}})
		c.make(s)
		c.settle(lifecycle.Active)
		onHost := func(kind lifecycle.Action, host string) {
			t.Helper()
			now, held := c.server(), c.placement.Held("s")
			if now.Host != host || held["nfs"]["DISK_GB"] != 20 || held[provider.ID("root-"+host)]["MEMORY_MB"] != 512 {
				t.Fatalf("after %s the server is on %s, not on %s, with %v\n%s", kind, now.Host, host, held, c.histories())
			}
		}
		next := func() string {
			for _, host := range []string{"a", "b", "c", "d"} {
				if host != c.server().Host && host != "a" {
					return host
				}
			}
			return ""
		}
		to := next()
		c.act(lifecycle.ActionRequested{ID: "m1", Action: lifecycle.Migrate, To: to})
		c.settlePhase(lifecycle.Resized)
		c.act(lifecycle.ActionRequested{ID: "w1", Action: lifecycle.Confirm})
		c.settle(lifecycle.Active)
		onHost(lifecycle.Migrate, to)
		for i, kind := range []lifecycle.Action{lifecycle.Live, lifecycle.Evacuate} {
			to, from := next(), c.server().Host
			if kind == lifecycle.Evacuate {
				c.agents.pause(from, true)
				if err := c.conductor().HostDown(t.Context(), from); err != nil {
					t.Fatal(err)
				}
			}
			c.act(lifecycle.ActionRequested{ID: "n" + to + string(rune('0'+i)), Action: kind, To: to})
			c.waitFor(string(kind)+" has ended", func() bool {
				s := c.server()
				return s.State == lifecycle.Active && s.TaskState() == ""
			})
			onHost(kind, to)
		}
	}
}

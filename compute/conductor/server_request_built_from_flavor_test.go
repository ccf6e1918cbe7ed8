package conductor

import (
	"strings"
	"testing"

	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
)

// The conductor builds the request of a server from its flavor, with ids of its own for each server.
func TestRequestIsBuiltFromTheFlavor(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 4})
	c.start(t.Context(), c.store, c.client(nil))
	of := func(id string) lifecycle.Server {
		return lifecycle.Server{ID: id, Name: id, Project: "p", User: "u", Flavor: flavor.Flavor{ID: "two", VCPUs: 1,
			ExtraSpecs: map[string]string{"pci_passthrough:alias": "nic:2", "hw:numa_nodes": "1"}, MemoryMB: 512}}
	}
	if _, err := c.conductor().Create(t.Context(), of("s"), of("t")); err != nil {
		t.Fatal(err)
	}
	c.waitSettled()
	ids := map[string]bool{}
	for _, s := range c.servers() {
		if s.State != lifecycle.Active && s.State != lifecycle.Error { // the agents of this test have no NUMA nodes
			t.Errorf("%s is %s", s.ID, s.Stage())
		}
		if len(s.Requests) != 1 || s.Requests[0].Count != 2 || len(s.Ask.Groups) != 3 || len(s.Topology) != 1 {
			t.Fatalf("%s requests %+v %+v %+v\n%s", s.ID, s.Requests, s.Ask, s.Topology, c.histories())
		}
		ids[s.Requests[0].ID] = true
	}
	if len(ids) != 2 {
		t.Errorf("request ids %v", ids)
	}
}

// The configuration has changed since the Compute API accepted the flavor: the server fails with the reason, and
// nothing is requested.
func TestRequestThatCannotBeBuilt(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 1})
	c.start(t.Context(), c.store, c.client(nil))
	s := c.make(lifecycle.Server{ID: "s", Name: "s", Flavor: flavor.Flavor{VCPUs: 1,
		ExtraSpecs: map[string]string{"pci_passthrough:alias": "crypto:1"}}})
	if s.Status() != "ERROR" || s.Round != 0 ||
		!strings.HasPrefix(s.Fault.Message, "The request to Placement cannot be built: ") ||
		!strings.Contains(s.Fault.Message, "crypto") {
		t.Errorf("%s %+v\n%s", s.Stage(), s.Fault, c.histories())
	}
}

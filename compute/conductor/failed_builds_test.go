package conductor

import (
	"fmt"
	"testing"

	"github.com/openberth/berth/compute/lifecycle"
)

// After a guest has failed on a host, the next servers are not tried there first. The host is used when no other one
// has room.
func TestFailedHostIsTriedLast(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 8, "b": 4})
	tried := map[string]int{}
	c.agents.fails = func(host string) string {
		if host != "a" {
			return ""
		}
		return "the IOMMU group 12 is not viable"
	}
	c.start(t.Context(), c.store, c.client(nil))
	for i := range 4 {
		c.create(fmt.Sprint("s", i))
		c.waitSettled()
	}
	for _, s := range c.servers() {
		if _, failed := s.FailedHosts["a"]; failed {
			tried["a"]++
		}
		if s.State != lifecycle.Active || s.Host != "b" {
			t.Errorf("%s is %s on %q", s.ID, s.State, s.Host)
		}
	}
	if tried["a"] > 1 {
		t.Errorf("%d servers were tried on the host that fails", tried["a"])
	}
	c.agents.mu.Lock()
	c.agents.fails = func(string) string { return "" }
	c.agents.mu.Unlock()
	c.create("last")
	c.waitSettled()
	if s, err := c.store.Read(t.Context(), "last"); err != nil || s.State != lifecycle.Active || s.Host != "a" {
		t.Errorf("the last server is %s on %q, %v", s.State, s.Host, err)
	}
}

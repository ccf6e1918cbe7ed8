package conductor

import (
	"fmt"
	"testing"
	"time"

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

// A failure counts for a limited time, and not if the guest of a live migration has stayed on its source.
func TestFailuresEnd(t *testing.T) {
	var f failedBuilds
	noon := time.Now()
	f.record(lifecycle.GuestRunning{Host: "a"}, lifecycle.Server{}, noon)
	f.record(lifecycle.GuestFailed{Host: "b"}, lifecycle.Server{}, noon)
	f.record(lifecycle.GuestFailed{Host: "c"}, lifecycle.Server{
		Move: &lifecycle.Move{From: lifecycle.Residence{Host: "c"}}}, noon)
	if got := f.recent(noon.Add(failureTime)); len(got) != 1 || !got["b"] {
		t.Errorf("%v", got)
	}
	if got := f.recent(noon.Add(failureTime + 1)); len(got) != 0 {
		t.Errorf("later: %v", got)
	}
}

package conductor

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

// As many servers get a device as there are devices. The others fail with a reason. Deleting all frees every device.
func TestRaceForDevices(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 3, "b": 2, "c": 1})
	c.start(t.Context(), c.store, c.client(nil))
	for i := range 9 {
		c.create(fmt.Sprintf("s%d", i))
	}
	c.waitSettled()
	c.checkConsistent("after the race")
	if c.count(lifecycle.Active) != 6 || c.count(lifecycle.Error) != 3 {
		t.Errorf("%d active, %d in error", c.count(lifecycle.Active), c.count(lifecycle.Error))
	}
	for _, s := range c.servers() {
		if s.State == lifecycle.Error && !strings.HasPrefix(s.Fault.Message, "No valid host was found: 3 hosts: "+
			"no free device of CUSTOM_NIC on the host") {
			t.Errorf("%s: %s", s.ID, s.Fault.Message)
		}
		if s.State == lifecycle.Active && (len(s.Devices) != 1 || len(s.Requests[0].Providers) != 1 ||
			s.Requests[0].Providers[0] != provider.ID("pf-"+s.Host)) {
			t.Errorf("%s: %+v on %s", s.ID, s.Requests, s.Host)
		}
	}
	c.deleteAll()
}

// Servers of one request come into being together or not at all, also when the process ends in the middle.
func TestCreateIsAllOrNothing(t *testing.T) {
	for _, late := range []bool{false, true} {
		c := newCloud(t, map[string]int{"a": 3})
		ctx, end := context.WithCancel(t.Context())
		tr := &trouble{fails: crash(1, late, end)}
		c.start(ctx, troubledStore{c.store, tr}, c.client(tr.failPlacement))
		if _, err := c.conductor().Create(t.Context(), server("s1"), server("s2"), server("s3")); err == nil {
			t.Error("the crash was not noticed")
		}
		c.stop()
		c.start(t.Context(), c.store, c.client(nil))
		want := 0
		if late {
			want = 3
		}
		c.waitSettled()
		if n := len(c.servers()); n != want || c.count(lifecycle.Active) != want {
			t.Errorf("late %v: %d servers, %d active", late, n, c.count(lifecycle.Active))
		}
		c.checkConsistent("created")
		end()
	}
	c := newCloud(t, map[string]int{"a": 3})
	c.start(t.Context(), c.store, c.client(nil))
	c.create("s2")
	if _, err := c.conductor().Create(t.Context(), server("s1"), server("s2"), server("s3")); !fault.Is(err,
		fault.Conflict) {
		t.Errorf("an id is taken: %v", err)
	}
	made, err := c.conductor().Create(t.Context(), server("s4"), server("s5"))
	if err != nil || len(made) != 2 || made[0].ID != "s4" || made[1].Revision != 1 {
		t.Errorf("%+v %v", made, err)
	}
	c.waitSettled()
	if n := len(c.servers()); n != 3 || c.count(lifecycle.Active) != 3 {
		t.Errorf("%d servers, %d active", n, c.count(lifecycle.Active))
	}
}

// Without a running agent a server remains in BUILD. Its deletion does not wait, because the agent has not reported
// it.
func TestDeleteBeforeTheAgentReports(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 1})
	c.agents.mu.Lock() // the agents pause
	c.start(t.Context(), c.store, c.client(nil))
	c.create("s")
	c.waitFor("assigned", func() bool { return c.count(lifecycle.Spawning) == 1 })
	if err := c.conductor().Delete(t.Context(), "s", lifecycle.Caller{}); err != nil {
		t.Fatal(err)
	}
	c.waitFor("deleted", func() bool { return c.count(lifecycle.Deleted) == 1 })
	c.agents.mu.Unlock()
	c.checkConsistent("deleted")
	if err := c.conductor().Delete(t.Context(), "s", lifecycle.Caller{}); !fault.Is(err, fault.NotFound) {
		t.Errorf("deleting a deleted one: %v", err)
	}
	if err := c.conductor().Delete(t.Context(), "none", lifecycle.Caller{}); !fault.Is(err, fault.NotFound) {
		t.Errorf("deleting none: %v", err)
	}
	if err := c.agents.guest(c.conductor(), "a", "none", 1000, lifecycle.GuestGone{Host: "a"}); err != nil {
		t.Errorf("an agent reports an unknown server: %v", err)
	}
}

// A server is shown as deleted at once although its host is silent. Its allocation remains until the agent reports
// that the guest is gone.
func TestDeleteWhileTheHostIsDown(t *testing.T) {
	st := operation{hosts: map[string]int{"a": 1}, setup: longRunning}
	c := st.prepare(t)
	c.start(t.Context(), c.store, c.client(nil))
	c.agents.pause("a", true)
	c.deleteServer()
	s := c.server()
	if s.Status() != "DELETED" || s.TaskState() != "deleting" || len(c.placement.Consumers()) != 1 {
		t.Errorf("%s %s, held %v", s.Status(), s.TaskState(), c.allocations())
	}
	if err := c.conductor().Delete(t.Context(), "s", lifecycle.Caller{}); !fault.Is(err, fault.NotFound) {
		t.Errorf("deleted twice: %v", err)
	}
	if err := c.store.Purge(t.Context(), time.Now().Add(time.Hour), 0); err != nil {
		t.Fatal(err)
	}
	if c.server().State != lifecycle.DeletingGuest { // it is not forgotten as long as it holds something
		t.Error(c.histories())
	}
	c.agents.pause("a", false)
	c.settle(lifecycle.Deleted)
}

package conductor

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
)

// After its start compute awaits the reports of the hosts before it performs steps of old servers, for a limited
// time.
func TestStepsAwaitTheFirstReports(t *testing.T) {
	env := newCloud(t, map[string]int{"a": 1, "b": 1})
	env.reportAt("b", time.Now().Add(-time.Hour)) // it has been silent for long: it is not awaited
	c := New(env.store, env.client(nil), Config{})
	c.firstReports = time.Hour
	opened := make(chan error, 1)
	go func() { opened <- c.openGate(t.Context()) }()
	old := server("s")
	old.Created = time.Now().Add(-time.Minute)
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := c.checkMayWrite(short, old); !fault.Is(err, fault.Unavailable) {
		t.Errorf("before the first report: %v", err)
	}
	ahead := old
	ahead.Created = time.Now().Add(time.Hour)
	ended, end := context.WithCancel(t.Context())
	end()
	if err := c.checkMayWrite(ended, ahead); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a server of an earlier process, created before the wall clock was set back: %v", err)
	}
	young, err := c.Create(t.Context(), server("t"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.checkMayWrite(t.Context(), young[0]); err != nil {
		t.Errorf("a server that this process has created: %v", err)
	}
	host, err := env.store.Host(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Agents.Report(t.Context(), host, schedule.Sender{Instance: "agent-a", Start: "start"}); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Error(err)
	}
	if err := c.checkMayWrite(t.Context(), old); err != nil {
		t.Errorf("after the report: %v", err)
	}
	c = New(env.store, env.client(nil), Config{})
	c.firstReports = time.Millisecond
	if err := c.openGate(t.Context()); err != nil {
		t.Error(err)
	}
	if err := c.checkMayWrite(t.Context(), old); err != nil {
		t.Errorf("after the wait: %v", err)
	}
}

// Until a host reports to a new process, its last report counts: a guest in it that compute has not placed there
// protects the allocations of its server, also after the wait for first reports has ended.
func TestStoredReportsProtectGuests(t *testing.T) {
	env := newCloud(t, map[string]int{"a": 1, "b": 1})
	host, err := env.store.Host(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	host.Present, host.Seen = []schedule.Present{{ID: "s", Server: "s"}}, time.Now().Add(-time.Hour)
	env.put(host)
	c := New(env.store, env.client(nil), Config{})
	if _, err := c.Agents.AwaitReports(t.Context()); err != nil {
		t.Fatal(err)
	}
	if missing := c.Agents.StopAwaiting(); !slices.Equal(missing, []string{"a"}) {
		t.Errorf("awaited %v", missing)
	}
	s := server("s")
	s.State, s.Host = lifecycle.Failing, "a"
	if _, err := c.steps.perform(t.Context(), s, lifecycle.Release); !fault.Is(err, fault.Unavailable) ||
		!strings.Contains(err.Error(), "host b has a guest") {
		t.Errorf("before b has reported: %v", err)
	}
	host.Present = nil
	from := schedule.Sender{Instance: host.Instance, Start: host.Start}
	if err := c.Agents.Report(t.Context(), host, from); err != nil {
		t.Fatal(err)
	}
	if _, err := c.steps.perform(t.Context(), s, lifecycle.Release); err != nil {
		t.Errorf("after b has reported without the guest: %v", err)
	}
}

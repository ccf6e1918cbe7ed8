package conductor

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// clocks are the two clocks of a conductor: the monotonic one, and the wall clock, which can be set.
type clocks struct{ since, wall time.Duration }

// withClocks returns a conductor that does not run, and its clocks.
func withClocks(t *testing.T, c *cloud) (*Conductor, *clocks) {
	t.Helper()
	conductor, at, began := New(c.store, c.client(nil)), &clocks{}, time.Now()
	conductor.presence.clock = func() time.Duration { return at.since }
	conductor.now = func() time.Time { return began.Add(at.since + at.wall) }
	return conductor, at
}

// Silence is measured with the monotonic clock. A jump of the wall clock makes no running host silent and no dead
// host alive. After a restart of compute each silence starts at zero.
func TestClockJumps(t *testing.T) {
	env := newCloud(t, map[string]int{"a": 1})
	c, at := withClocks(t, env)
	host, err := env.store.Host(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	from := schedule.Sender{Instance: "agent-a", Start: "start"}
	if err := c.Report(t.Context(), host, from); err != nil {
		t.Fatal(err)
	}
	stranger := schedule.Sender{Instance: "b", Start: "x"}
	check := func(what string, alive, schedulable, admitsAnother bool) {
		t.Helper()
		refusal, err := c.refusal(t.Context(), lifecycle.Server{Host: "a"},
			lifecycle.ActionRequested{Action: lifecycle.Evacuate})
		if err != nil || (refusal != "") != alive {
			t.Errorf("%s: evacuate: %q %v", what, refusal, err)
		}
		if err := c.Admit(t.Context(), "a", stranger); (err == nil) != admitsAnother {
			t.Errorf("%s: another agent: %v", what, err)
		}
		picture, err := c.scheduleInput(t.Context(), offer("a"))
		if err != nil {
			t.Fatal(err)
		}
		_, refusals := schedule.Choose(picture, nil, 1)
		if why := schedule.Summarise(refusals); strings.Contains(why, "has not reported for") == schedulable {
			t.Errorf("%s: scheduling: %q", what, why)
		}
	}
	at.since = time.Minute
	check("a minute later", true, true, false)
	for _, jump := range []time.Duration{10 * time.Minute, 30 * time.Minute, 1000 * time.Hour, -time.Hour} {
		at.wall = jump
		check("the wall clock jumps by "+jump.String(), true, true, false)
	}
	closed := c.Connected("a", from)
	at.since = 10 * time.Minute
	check("connected, without a report for long", true, false, false)
	closed()
	at.since += 2 * time.Minute
	check("disconnected two minutes ago", true, false, false)
	at.since += time.Minute
	for _, jump := range []time.Duration{0, -time.Hour, -1000 * time.Hour} {
		at.wall = jump
		check("dead, and the wall clock jumps by "+jump.String(), false, false, true)
	}
	c, at = withClocks(t, env) // a restart
	at.wall = 24 * time.Hour
	check("just after a restart", true, true, false)
	at.since = time.Minute
	check("a minute after a restart, without a report", true, false, false)
	at.since = schedule.Silence
	check("silent since the restart", false, false, true)
}

// offer is one candidate on a host, without devices.
func offer(host string) placement.Candidates {
	root := provider.ID("root-" + host)
	return placement.Candidates{List: []placement.Candidate{{Allocation: resource.Allocation{root: {"VCPU": 1}}}}}
}

// A host that was declared dead and has returned is not forgotten.
func TestForgetAHostThatHasReturned(t *testing.T) {
	env := newCloud(t, map[string]int{"a": 0})
	c, at := withClocks(t, env)
	c.Providers = env.placement
	host, err := env.store.Host(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	from := schedule.Sender{Instance: "agent-a", Start: "start"}
	report := func() {
		t.Helper()
		if err := c.Report(t.Context(), host, from); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(what string) {
		t.Helper()
		_, _, err := c.HostForget(t.Context(), "a")
		if !fault.Is(err, fault.Conflict) || !strings.Contains(fault.TextOf(err),
			"has been declared dead, and its agent is connected or has reported since") {
			t.Errorf("%s: %v", what, err)
		}
	}
	report()
	at.since = time.Second
	if err := c.HostDown(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	at.since = time.Minute
	report()
	refused("it has reported since")
	if err := c.HostDown(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	closed := c.Connected("a", from)
	refused("it is connected")
	closed()
	if _, _, err := c.HostForget(t.Context(), "a"); err != nil {
		t.Errorf("dead and silent: %v", err)
	}
}

// A guest report of another start than the admitted one changes nothing.
func TestGuestReportsOfAnotherStart(t *testing.T) {
	env := newCloud(t, map[string]int{"a": 1})
	env.start(t.Context(), env.store, env.client(nil))
	env.create("s")
	env.waitSettled()
	for _, who := range []struct{ instance, start string }{{"agent-a", "another"}, {"another", "start"}, {"", ""}} {
		told := lifecycle.Report{Host: "a", Instance: who.instance, Number: 1 << 40, Event: lifecycle.GuestFailed{Host: "a",
			Consumer: "s", Message: "forged"}}
		if err := env.conductor().Guest(t.Context(), "s", who.start, told); !fault.Is(err, fault.Conflict) {
			t.Errorf("%+v: %v", who, err)
		}
	}
	told := lifecycle.Report{Host: "b", Instance: "agent-a", Number: 1 << 40, Event: lifecycle.GuestFailed{Host: "b",
		Consumer: "s"}}
	if err := env.conductor().Guest(t.Context(), "s", "start", told); !fault.Is(err, fault.Conflict) {
		t.Errorf("of a host without an agent: %v", err)
	}
	if s := env.server(); s.State != lifecycle.Active {
		t.Error(s.State)
	}
	env.checkConsistent("in the end")
}

// After a restore of its database, compute does not change the allocations of servers whose guests contradict its
// records.
func TestARestoredDatabaseTouchesNoForeignAllocation(t *testing.T) {
	for name, c := range map[string]struct {
		present schedule.Present
		behind  string
		host    string
		says    string // empty: the step is done
	}{
		"the guest runs elsewhere": {schedule.Present{ID: "s", Server: "s"}, "", "b",
			"has a guest of this server"},
		"under its migration's id": {schedule.Present{ID: "m", Server: "s"}, "", "b",
			"has a guest of this server"},
		"the host follows newer assignments": {schedule.Present{ID: "s", Server: "s", Assigned: true}, "older", "b",
			"follows newer assignments"},
		"its own host follows newer assignments": {schedule.Present{}, "older", "a", "follows newer assignments"},
		"another server's guest":                 {schedule.Present{ID: "x", Server: "x"}, "", "b", ""},
		"another host follows newer assignments": {schedule.Present{ID: "x", Server: "x"}, "older", "b", ""},
		"an unassigned guest where it was placed": {schedule.Present{ID: "s", Server: "s"}, "", "a",
			"has a guest of this server"},
	} {
		t.Run(name, func(t *testing.T) {
			env := newCloud(t, map[string]int{"a": 1, "b": 1})
			conductor, _ := withClocks(t, env)
			close(conductor.presence.gate)
			h, err := env.store.Host(t.Context(), c.host)
			if err != nil {
				t.Fatal(err)
			}
			h.Present, h.Behind = []schedule.Present{c.present}, c.behind
			if err := conductor.Report(t.Context(), h, schedule.Sender{Instance: "agent-" + c.host,
				Start: "start"}); err != nil {
				t.Fatal(err)
			}
			env.allocate("s", resource.Allocation{"pf-b": {class: 1}})
			s := server("s")
			s.State, s.Host = lifecycle.Failing, "a"
			_, err = conductor.steps.perform(t.Context(), s, lifecycle.Release)
			kept := len(env.placement.Held("s")) > 0
			if kept != (c.says != "") || kept && (!fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("kept %v: %v", kept, err)
			}
			if err := conductor.HostDown(context.Background(), c.host); err != nil { // an operator has decided
				t.Fatal(err)
			}
			if _, err := conductor.steps.perform(t.Context(), s, lifecycle.Release); err != nil {
				t.Errorf("after host down: %v", err)
			}
		})
	}
}

// After its start compute awaits the reports of the hosts before it performs steps of old servers, for a limited
// time.
func TestStepsAwaitTheFirstReports(t *testing.T) {
	env := newCloud(t, map[string]int{"a": 1, "b": 1})
	env.reportAt("b", time.Now().Add(-time.Hour)) // it has been silent for long: it is not awaited
	c := New(env.store, env.client(nil))
	c.firstReports = time.Hour
	opened := make(chan error, 1)
	go func() { opened <- c.openGate(t.Context()) }()
	old := server("s")
	old.Created = c.started.Add(-time.Minute)
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := c.checkMayWrite(short, old); !fault.Is(err, fault.Unavailable) {
		t.Errorf("before the first report: %v", err)
	}
	ahead := old
	ahead.Created = c.started.Add(time.Hour)
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
	if err := c.Report(t.Context(), host, schedule.Sender{Instance: "agent-a", Start: "start"}); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Error(err)
	}
	if err := c.checkMayWrite(t.Context(), old); err != nil {
		t.Errorf("after the report: %v", err)
	}
	c = New(env.store, env.client(nil))
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
	c := New(env.store, env.client(nil))
	if _, err := c.AwaitReports(t.Context()); err != nil {
		t.Fatal(err)
	}
	if missing := c.StopAwaiting(); !slices.Equal(missing, []string{"a"}) {
		t.Errorf("awaited %v", missing)
	}
	s := server("s")
	s.State, s.Host = lifecycle.Failing, "a"
	if _, err := c.steps.perform(t.Context(), s, lifecycle.Release); !fault.Is(err, fault.Unavailable) ||
		!strings.Contains(err.Error(), "host b has a guest") {
		t.Errorf("before b has reported: %v", err)
	}
	host.Present = nil
	if err := c.Report(t.Context(), host, schedule.Sender{Instance: host.Instance, Start: host.Start}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.steps.perform(t.Context(), s, lifecycle.Release); err != nil {
		t.Errorf("after b has reported without the guest: %v", err)
	}
}

// A conductor that does not run performs one step a call, with the time and the waits of its clock.
func TestPerformOnAGivenClock(t *testing.T) {
	env := newCloud(t, map[string]int{"a": 1})
	env.agents.mu.Lock()
	env.agents.paused["a"] = true
	env.agents.mu.Unlock()
	c, waits, closed := New(env.store, env.client(nil)), 0, errors.New("closed")
	c.Log = slog.New(slog.DiscardHandler)
	at := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	c.UseClock(Clock{Now: func() time.Time { return at }, Since: func() time.Duration { return time.Second },
		Pause: func(context.Context, int) {}, NewID: uuid.NewString,
		Wait: func(context.Context, <-chan struct{}) error {
			waits++
			return closed
		}})
	keepAsks(c)
	made, err := c.Create(t.Context(), server("young"))
	if err != nil || !made[0].Created.Equal(at) {
		t.Fatalf("%v: %v", made, err)
	}
	old := server("old")
	old.State, old.Host = lifecycle.Failing, "a"
	if err := env.store.Create(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	if err := c.Perform(t.Context(), "old"); !errors.Is(err, closed) || waits != 1 {
		t.Errorf("a step behind the gate: %v, after %d waits", err, waits)
	}
	for _, want := range []lifecycle.State{lifecycle.Scheduling, lifecycle.Claiming, lifecycle.Spawning} {
		if err := c.Perform(t.Context(), "young"); err != nil {
			t.Fatal(err)
		}
		if now, err := env.store.Read(t.Context(), "young"); err != nil || now.State != want {
			t.Errorf("state %s, want %s: %v", now.State, want, err)
		}
	}
	if waits != 1 {
		t.Errorf("%d waits", waits)
	}
}

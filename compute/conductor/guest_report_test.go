package conductor

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/compute/presence"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
)

// A guest that fails on one host is built on another one. If all hosts fail, the fault names the reason of each.
func TestGuestFails(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 2, "b": 2})
	c.agents.fails = func(host string) string {
		if host == "a" {
			return "no hugepages"
		}
		return ""
	}
	c.start(t.Context(), c.store, c.client(nil))
	c.create("s1", "s2", "s3")
	c.waitSettled()
	c.checkConsistent("one host fails")
	if c.count(lifecycle.Active) != 2 {
		t.Errorf("%d active", c.count(lifecycle.Active))
	}
	for _, s := range c.servers() {
		if s.State == lifecycle.Error && !strings.Contains(s.Fault.Message, "no hugepages") {
			t.Errorf("%s: %s", s.ID, s.Fault.Message)
		}
	}
	c.deleteAll()
}

// An agent that speaks of its claim too late is refused, and builds nothing: what the server held is given back
// already.
func TestClaimReportOfADeletedServer(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 1})
	c.agents.mu.Lock() // the agents pause
	c.start(t.Context(), c.store, c.client(nil))
	c.create("s")
	c.waitFor("assigned", func() bool { return c.count(lifecycle.Spawning) == 1 })
	line, err := c.store.Assignments(t.Context(), "a") // before the agent lost its connection
	if err != nil || len(line.Entries) != 1 {
		t.Fatalf("%+v %v", line, err)
	}
	if err := c.agents.guest(c.conductor(), "b", "s", 1, lifecycle.GuestClaimed{Host: "b"}); !fault.Is(err,
		fault.Conflict) || !strings.Contains(err.Error(), "host b") {
		t.Errorf("the claim of another host: %v", err)
	}
	if err := c.conductor().Delete(t.Context(), "s", lifecycle.Caller{}); err != nil {
		t.Fatal(err)
	}
	c.waitFor("deleted", func() bool { return c.count(lifecycle.Deleted) == 1 })
	c.agents.build(t, "a", line.Entries[0])
	if g := c.agents.guests["a"]["s"]; g == nil || g.confirmed || g.runs {
		t.Errorf("the agent built it: %v", g)
	}
	c.agents.mu.Unlock()
	c.waitFor("the agent has removed the guest", c.agentsDone)
	c.checkConsistent("deleted")
	for _, id := range []string{"s", "none"} {
		if err := c.agents.guest(c.conductor(), "a", id, 1000, lifecycle.GuestClaimed{Host: "a"}); !fault.Is(err,
			fault.Conflict) {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// Reports of an agent count in the order of their numbers, in whatever order they arrive. Reports of a replaced
// agent do not count.
func TestLateReports(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 1})
	c.agents.mu.Lock() // the agents pause: the test reports
	defer c.agents.mu.Unlock()
	c.start(t.Context(), c.store, c.client(nil))
	c.create("s")
	c.waitFor("assigned", func() bool { return c.count(lifecycle.Spawning) == 1 })
	serve := func(instance string, at time.Time) {
		t.Helper()
		c.put(schedule.Host{Name: "a", Instance: instance, Start: "s", Provider: "root-a", Seen: at})
	}
	say := func(instance string, number int64, of lifecycle.Event) error {
		return c.conductor().Guest(t.Context(), "s", "s", lifecycle.Report{Host: "a", Instance: instance, Number: number,
			Event: of})
	}
	claimed, running, stopped := lifecycle.GuestClaimed{Host: "a", Consumer: "s"}, lifecycle.GuestRunning{Host: "a",
		Consumer: "s"}, lifecycle.GuestStopped{Host: "a", Consumer: "s"}
	now := time.Now()
	serve("i1", now)
	for _, step := range []struct {
		what     string
		instance string
		number   int64
		word     lifecycle.Event
		late     int64 // the number that it was too late for
		refused  bool
		status   string
	}{
		{"the claim", "i1", 1, claimed, 0, false, "BUILD"},
		{"a second agent's word", "i2", 9, running, 0, true, "BUILD"},
		{"it runs", "i1", 4, running, 0, false, "ACTIVE"},
		{"twice", "i1", 4, running, 0, false, "ACTIVE"},
		{"what was said before", "i1", 3, stopped, 4, false, "ACTIVE"},
		{"an end that was never one", "i1", 2, lifecycle.GuestGone{Host: "a", Consumer: "s"}, 4, false, "ACTIVE"},
	} {
		err := say(step.instance, step.number, step.word)
		late, is := errors.AsType[*presence.Late](err)
		if step.refused != (err != nil && !is) || is != (step.late > 0) ||
			is && (late.Number != step.late || !fault.Is(err, fault.Conflict)) {
			t.Errorf("%s: %v", step.what, err)
		}
		if s, err := c.store.Read(t.Context(), "s"); err != nil || s.Status() != step.status || s.Actual != lifecycle.On {
			t.Errorf("%s: %s, %q %v", step.what, s.Status(), s.Actual, err)
		}
	}
	// An agent with a new journal takes the place, and counts from the beginning; the last words of the one before are not
	// taken.
	serve("i2", now.Add(schedule.Silence))
	if err := say("i1", 5, lifecycle.GuestFailed{Host: "a", Consumer: "s", Message: "gone mad"}); !fault.Is(err,
		fault.Conflict) || !strings.Contains(err.Error(), "another agent serves host a") {
		t.Errorf("last words: %v", err)
	}
	if err := say("i2", 1, running); err != nil {
		t.Error(err)
	}
	if s, err := c.store.Read(t.Context(), "s"); err != nil || s.Status() != "ACTIVE" || s.Latest("a", "i1") != 4 ||
		s.Latest("a", "i2") != 1 {
		t.Errorf("%s %+v %v", s.Status(), s.LastReports, err)
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

// A guest is to be removed from a host. An older report that the guest is gone, which the network has delayed, does not
// end that; a newer one does.
func TestLateReportEndsNoRemoval(t *testing.T) {
	env, c, at := silentAgents(t, map[string]int{"a": 4, "b": 4})
	s := created(t, c, "s")
	from, to := s.Host, map[string]string{"a": "b", "b": "a"}[s.Host]
	report := func(number int64, event lifecycle.Event) error {
		return c.Guest(t.Context(), "s", "start", lifecycle.Report{Host: from, Instance: "agent-" + from,
			Number: number, Event: event})
	}
	if err := report(2, lifecycle.GuestClaimed{Host: from, Consumer: "s", Devices: []schedule.Picked{}}); err != nil {
		t.Fatal(err)
	}
	reportDown(t, c, from, "connection refused")
	check(t, c, at, 0, to)
	removed := func(want bool) {
		t.Helper()
		hosts, err := env.store.RemovalHosts(t.Context(), "s")
		if err != nil || slices.Contains(hosts, from) == want {
			t.Errorf("removed %v: the guest is named for removal on %v: %v", want, hosts, err)
		}
	}
	removed(false)
	if _, late := errors.AsType[*presence.Late](report(1, lifecycle.GuestGone{Host: from, Consumer: "s"})); !late {
		t.Error("the report is not late")
	}
	removed(false)
	if err := report(3, lifecycle.GuestGone{Host: from, Consumer: "s"}); err != nil {
		t.Fatal(err)
	}
	removed(true)
}

package conductor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

func (c *cloud) create(ids ...string) {
	c.t.Helper()
	for _, id := range ids {
		if _, err := c.conductor().Create(context.Background(), server(id)); err != nil {
			c.t.Fatal(err)
		}
	}
}

// deleteAll deletes what is not deleted and waits until nothing is left.
func (c *cloud) deleteAll() {
	c.t.Helper()
	for _, s := range c.servers() {
		c.waitFor("the deletion of "+s.ID+" is recorded", func() bool {
			err := c.conductor().Delete(context.Background(), s.ID)
			return err == nil || fault.Is(err, fault.NotFound)
		})
	}
	c.waitSettled()
	if n := c.count(lifecycle.Deleted); n != len(c.servers()) {
		c.t.Errorf("%d of %d are deleted", n, len(c.servers()))
	}
	c.checkConsistent("after deleting all")
}

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
		if s.State == lifecycle.Error && s.Fault.Message != "No valid host was found: Placement has no host with all of "+
			"CUSTOM_NIC:1 left." {
			t.Errorf("%s: %s", s.ID, s.Fault.Message)
		}
		if s.State == lifecycle.Active && (len(s.Devices) != 1 || len(s.Requests[0].Providers) != 1 ||
			s.Requests[0].Providers[0] != provider.ID("pf-"+s.Host)) {
			t.Errorf("%s: %+v on %s", s.ID, s.Requests, s.Host)
		}
	}
	c.deleteAll()
}

// Each call of compute's to the database and to Placement fails once, before its effect or with its answer lost.
func TestFailAtEachStep(t *testing.T) { atEachCall(t, failAt) }

// The process ends at each call, before or after its effect, and is started again. Records, Placement and agents
// agree.
func TestCrashAtEachStep(t *testing.T) { atEachCall(t, crashAt) }

// atEachCall runs a test once for each call in it. live returns whether the call was reached.
func atEachCall(t *testing.T, live func(t *testing.T, at int, late bool) bool) {
	for _, late := range []bool{false, true} {
		at := 1 - testenv.Stride(5)
		for reached := true; reached; {
			at += testenv.Stride(5)
			reached = false // also if the test ends early
			t.Run(fmt.Sprintf("call %d late %v", at, late), func(t *testing.T) { reached = live(t, at, late) })
		}
		if at < 12 {
			t.Errorf("late %v: only %d calls: the test checks nothing", late, at-1)
		}
	}
}

// failAt creates and deletes servers while one call fails.
func failAt(t *testing.T, at int, late bool) bool {
	c := newCloud(t, map[string]int{"a": 1})
	tr := &trouble{fails: once(at, late)}
	c.start(t.Context(), troubledStore{c.store, tr}, c.client(tr.failPlacement))
	for _, id := range []string{"s1", "s2"} {
		_, _ = c.conductor().Create(t.Context(), server(id)) // with an error it may have been stored or not
	}
	c.waitSettled()
	c.checkConsistent("created")
	if len(c.servers()) == 2 && c.count(lifecycle.Active) != 1 {
		t.Errorf("%d active", c.count(lifecycle.Active))
	}
	c.deleteAll()
	return tr.count() >= at
}

// crashAt creates and deletes servers with one crash.
func crashAt(t *testing.T, at int, late bool) bool {
	c := newCloud(t, map[string]int{"a": 1, "b": 1})
	ctx, end := context.WithCancel(t.Context())
	defer end()
	tr := &trouble{fails: crash(at, late, end)}
	c.start(ctx, troubledStore{c.store, tr}, c.client(tr.failPlacement))
	again := func() bool {
		if ctx.Err() == nil {
			return false
		}
		c.stop()
		c.start(t.Context(), c.store, c.client(nil))
		return true
	}
	for _, id := range []string{"s1", "s2", "s3"} {
		_, _ = c.conductor().Create(t.Context(), server(id)) // the clients of a service that ends get an error
	}
	c.waitFor("settled, or the crash", func() bool {
		return ctx.Err() != nil ||
			c.count(lifecycle.Active)+c.count(lifecycle.Error) == 3
	})
	crashed := again()
	c.waitSettled()
	c.checkConsistent("created")
	if n := len(c.servers()); n == 3 && c.count(lifecycle.Active) != 2 {
		t.Errorf("%d active\n%s", c.count(lifecycle.Active), c.histories())
	}
	for _, s := range c.servers() {
		_ = c.conductor().Delete(t.Context(), s.ID)
	}
	c.waitFor("deleted, or the crash", func() bool {
		return crashed || ctx.Err() != nil ||
			c.count(lifecycle.Deleted) == 3
	})
	if !crashed {
		again()
	}
	c.deleteAll()
	return tr.count() >= at
}

// Resume returns the error if the database cannot be read, before any step runs.
func TestResumeReturnsTheError(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 1})
	if err := New(c.store, c.client(nil)).Resume(t.Context()); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := New(c.store, c.client(nil)).Resume(ctx); err == nil || !strings.Contains(err.Error(), "conductor.Resume") {
		t.Errorf("%v", err)
	}
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

// Without a running agent a server remains in BUILD. Its deletion does not wait, because the agent has not reported
// it.
func TestDeleteBeforeTheAgentReports(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 1})
	c.agents.mu.Lock() // the agents pause
	c.start(t.Context(), c.store, c.client(nil))
	c.create("s")
	c.waitFor("assigned", func() bool { return c.count(lifecycle.Spawning) == 1 })
	if err := c.conductor().Delete(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	c.waitFor("deleted", func() bool { return c.count(lifecycle.Deleted) == 1 })
	c.agents.mu.Unlock()
	c.checkConsistent("deleted")
	if err := c.conductor().Delete(t.Context(), "s"); !fault.Is(err, fault.NotFound) {
		t.Errorf("deleting a deleted one: %v", err)
	}
	if err := c.conductor().Delete(t.Context(), "none"); !fault.Is(err, fault.NotFound) {
		t.Errorf("deleting none: %v", err)
	}
	if err := c.agents.guest(c.conductor(), "a", "none", 1000, lifecycle.GuestGone{Host: "a"}); err != nil {
		t.Errorf("an agent reports an unknown server: %v", err)
	}
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
	if err := c.conductor().Delete(t.Context(), "s"); err != nil {
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

// Placement's answer to a claim decides how the conductor continues.
func TestClaimAnswers(t *testing.T) {
	lost := fault.New(fault.Conflict, "", "taken").WithCode(placement.CodeUndefined)
	for _, c := range []struct {
		name   string
		errs   []error // of the first claims; those after succeed
		state  lifecycle.State
		says   string // in the history or the fault
		claims int
	}{
		{"at once", nil, lifecycle.Active, "claimed on", 1},
		{"generations move", []error{concurrent(), concurrent()}, lifecycle.Active, "claimed on", 3},
		{"the first choice is taken", []error{lost}, lifecycle.Active, "lost the claim", 2},
		{"generations never rest", []error{concurrent(), concurrent(), concurrent(), concurrent(), concurrent()},
			lifecycle.Active,
			"another generation", 6},
		{"a provider has vanished", []error{fault.New(fault.Invalid, "", "no such provider")}, lifecycle.Active,
			"no such provider", 2},
		{"no answer", []error{fault.New(fault.Unavailable, "", "connection refused")}, lifecycle.Active,
			"cannot claim now, will try again: connection refused", 2},
		{"forbidden", []error{fault.New(fault.Forbidden, "", "bad token")}, lifecycle.Error, "bad token", 1},
		{"always taken", []error{lost, lost, lost, lost, lost, lost, lost, lost, lost, lost}, lifecycle.Error,
			"in each of 5 rounds, last: taken", 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := newCloud(t, map[string]int{"a": 1, "b": 1})
			claims := &callErrors{op: "PutAllocation", errs: c.errs}
			env.start(t.Context(), env.store, env.client(claims.fail))
			env.create("s")
			env.waitSettled()
			env.checkConsistent("settled")
			s := env.servers()[0]
			if s.State != c.state || claims.count() != c.claims || !strings.Contains(env.histories(), c.says) {
				t.Errorf("%s after %d claims\n%s", s.State, claims.count(), env.histories())
			}
			env.deleteAll()
		})
	}
}

// Placement's answer to the search for candidates decides how the conductor continues.
func TestScheduleAnswers(t *testing.T) {
	for _, c := range []struct {
		name  string
		err   error
		state lifecycle.State
		says  string
	}{
		{"an unknown class", fault.New(fault.Invalid, "", "Invalid resource class in resources parameter: No such resource "+
			"class CUSTOM_NIC."),
			lifecycle.Error, "No valid host was found: no host has ever reported CUSTOM_NIC. "},
		{"unknown traits", fault.New(fault.Invalid, "", "No such trait(s): CUSTOM_A, CUSTOM_B."), lifecycle.Error,
			": no host has ever reported CUSTOM_A, CUSTOM_B. "},
		{"another objection", fault.New(fault.Invalid, "", "the limit is too large."), lifecycle.Error,
			"rejects the query: the limit is too large. "},
		{"forbidden", fault.New(fault.Forbidden, "", "bad token"), lifecycle.Error, "bad token. "},
		{"no answer", fault.New(fault.Unavailable, "", "connection refused"), lifecycle.Active,
			"cannot schedule now, will try again: connection refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := newCloud(t, map[string]int{"a": 1})
			searches := &callErrors{op: "Candidates", errs: []error{c.err}}
			env.start(t.Context(), env.store, env.client(searches.fail))
			env.report("a")
			env.create("s")
			env.waitSettled()
			env.checkConsistent("settled")
			if s := env.servers()[0]; s.State != c.state || !strings.Contains(env.histories(), c.says) {
				t.Errorf("%s\n%s", s.State, env.histories())
			}
		})
	}
}

// Before the first reports after a start, a name that Placement does not have may still be created. The conductor
// retries for a limited time.
func TestAskBeforeTheFirstReport(t *testing.T) {
	unknown := fault.New(fault.Invalid, "", "No such resource class CUSTOM_NIC.")
	c := newCloud(t, map[string]int{"a": 1})
	searches := &callErrors{op: "Candidates", errs: []error{unknown, unknown}}
	c.noReports = true
	c.start(t.Context(), c.store, c.client(searches.fail))
	c.create("s")
	c.waitSettled()
	c.checkConsistent("settled")
	if c.count(lifecycle.Active) != 1 || !strings.Contains(c.histories(),
		"will try again: no host has ever reported CUSTOM_NIC") {
		t.Error(c.histories())
	}
	searches = &callErrors{op: "Candidates", errs: []error{unknown, unknown}}
	late := New(c.store, c.client(searches.fail))
	for after, waits := range map[time.Duration]bool{firstReports - time.Second: true, firstReports: false} {
		late.now = func() time.Time { return late.started.Add(after) }
		event, err := late.steps.schedule(t.Context(), server("t"))
		if fault.Is(err, fault.Unavailable) != waits || (event == nil) != waits {
			t.Errorf("%s after the start: %v %v", after, event, err)
		}
	}
}

// An allocation from an earlier claim is replaced, or deleted if the new claim is refused.
func TestEarlierClaimIsReplaced(t *testing.T) {
	for _, taken := range []bool{false, true} {
		env := newCloud(t, map[string]int{"a": 1, "b": 1})
		c := New(env.store, env.client(nil))
		env.allocate("s", resource.Allocation{"pf-a": {class: 1}})
		if taken {
			env.allocate("other", resource.Allocation{"pf-b": {class: 1}})
		}
		s := server("s")
		s.Try, s.Choices = 3, choices(resource.Allocation{"pf-b": {class: 1}})
		e, err := c.steps.claim(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		held := env.placement.Held("s")
		if taken {
			if lost, ok := e.(lifecycle.ClaimLost); !ok || lost.Try != 3 || len(held) != 0 {
				t.Errorf("%#v, holds %v", e, held)
			}
		} else if e != (lifecycle.Claimed{Try: 3}) || !held.Equal(s.Choices[0].Allocation) {
			t.Errorf("%#v, holds %v", e, held)
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
		late, is := errors.AsType[*Late](err)
		if step.refused != (err != nil && !is) || is != (step.late > 0) ||
			is && (late.Number != step.late || !fault.Is(err, fault.Conflict)) {
			t.Errorf("%s: %v", step.what, err)
		}
		if s, err := c.store.Read(t.Context(), "s"); err != nil || s.Status() != step.status || s.Stopped {
			t.Errorf("%s: %s, stopped %v %v", step.what, s.Status(), s.Stopped, err)
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

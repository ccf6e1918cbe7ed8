package conductor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/presence"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fault"
)

// silentAgents returns a cloud in which the test plays the agents, a conductor that performs only the steps that the
// test requests, and its clocks.
func silentAgents(t *testing.T, devices map[string]int) (*cloud, *Conductor, *clocks) {
	t.Helper()
	env := newCloud(t, devices)
	env.agents.mu.Lock()
	for host := range devices {
		env.agents.paused[host] = true
	}
	env.agents.mu.Unlock()
	c, at := withClocks(t, env)
	keepAsks(c)
	c.Agents.StopAwaiting()
	for host := range devices {
		reportAgain(t, c, host)
	}
	return env, c, at
}

// reportAgain is a report of a host that has followed all assignments.
func reportAgain(t *testing.T, c *Conductor, host string) {
	t.Helper()
	known, err := c.store.Host(t.Context(), host)
	if err != nil {
		t.Fatal(err)
	}
	from := schedule.Sender{Instance: known.Instance, Start: known.Start}
	if err := c.Agents.Report(t.Context(), known, from); err != nil {
		t.Fatal(err)
	}
	followAll(t, c, host)
}

// followAll records that a host has followed the present assignments.
func followAll(t *testing.T, c *Conductor, host string) {
	t.Helper()
	epoch, revisions, err := c.store.Revisions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.Agents.Followed(host, epoch, revisions[host])
}

// perform performs the steps of a server until none is due, and returns it.
func perform(t *testing.T, c *Conductor, id string) lifecycle.Server {
	t.Helper()
	for range 50 {
		s, err := c.store.Read(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Steps()) == 0 {
			return s
		}
		if err := c.Perform(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("the steps do not end")
	return lifecycle.Server{}
}

// created creates a server and performs its steps.
func created(t *testing.T, c *Conductor, id string) lifecycle.Server {
	t.Helper()
	if _, err := c.Create(t.Context(), server(id)); err != nil {
		t.Fatal(err)
	}
	return perform(t, c, id)
}

// check checks followed assignments twice, with a wait in between. The other hosts give signs of life.
func check(t *testing.T, c *Conductor, at *clocks, wait time.Duration, living ...string) {
	t.Helper()
	for _, pause := range []time.Duration{0, wait} {
		at.since += pause
		for _, host := range living {
			reportAgain(t, c, host)
		}
		if err := c.CheckAssignments(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func text(s lifecycle.Server) string {
	var b strings.Builder
	for _, h := range s.History {
		fmt.Fprintf(&b, "%s ×%d\n", h.Text, h.Times)
	}
	return b.String()
}

// An agent is stopped, or the connection to it stalls: it does not follow its assignments, although it counts as alive.
// A server that waits for it goes to another host, and no further one is scheduled to it.
func TestServersLeaveHostThatDoesNotFollow(t *testing.T) {
	env, c, at := silentAgents(t, map[string]int{"a": 4, "b": 4})
	s := created(t, c, "s")
	from, to := s.Host, map[string]string{"a": "b", "b": "a"}[s.Host]
	check(t, c, at, followWithin-time.Second, to)
	if s, _ = env.store.Read(t.Context(), "s"); s.State != lifecycle.Spawning || s.Host != from {
		t.Fatalf("the server left %s too early: %s on %s", from, s.State, s.Host)
	}
	check(t, c, at, 2*time.Second, to)
	if c.Agents.IsSilent(from) {
		t.Fatal("the host is silent already, so the test shows nothing")
	}
	if s = perform(t, c, "s"); s.State != lifecycle.Spawning || s.Host != to {
		t.Errorf("the server is %s on %s, want it on %s\n%s", s.State, s.Host, to, text(s))
	}
	for _, id := range []string{"s1", "s2", "s3"} {
		if next := created(t, c, id); next.Host != to {
			t.Errorf("%s is on %s, whose agent does not answer\n%s", id, next.Host, text(next))
		}
	}
	got := strings.Join(condition.Texts(c.HostConditions(from)), "\n")
	if !strings.Contains(got, "has not followed compute's") {
		t.Errorf("the condition of %s is %q", from, got)
	}
	reportAgain(t, c, from) // the agent works again
	check(t, c, at, 0, from, to)
	if got := c.HostConditions(from); len(got) > 0 {
		t.Errorf("the condition stays: %q", got)
	}
}

// A server whose guest its host has reported stays, although its record says that nothing exists there: the record was
// restored from a backup. Elsewhere it would get a second guest, and its devices would be free here.
func TestServerWithReportedGuestStays(t *testing.T) {
	env, c, at := silentAgents(t, map[string]int{"a": 4, "b": 4})
	s := created(t, c, "s")
	from, to := s.Host, map[string]string{"a": "b", "b": "a"}[s.Host]
	known, err := c.store.Host(t.Context(), from)
	if err != nil {
		t.Fatal(err)
	}
	known.Present = []schedule.Present{{ID: "s", Server: "s"}}
	sender := schedule.Sender{Instance: known.Instance, Start: known.Start}
	if err := c.Agents.Report(t.Context(), known, sender); err != nil {
		t.Fatal(err)
	}
	check(t, c, at, followWithin+time.Second, to)
	perform(t, c, "s")
	if s, _ = env.store.Read(t.Context(), "s"); s.State != lifecycle.Spawning || s.Host != from {
		t.Errorf("the server is %s on %s, want it on %s\n%s", s.State, s.Host, from, text(s))
	}
}

// A record may have been restored from a backup of before the guest was built. So a server of an earlier process stays
// with a host that has not reported since, until the host reports without the guest. A server of this process leaves.
func TestServerOfEarlierProcessStaysWithoutReport(t *testing.T) {
	env, c, _ := silentAgents(t, map[string]int{"a": 4, "b": 4})
	s := created(t, c, "s")
	from, to := s.Host, map[string]string{"a": "b", "b": "a"}[s.Host]
	c, at := withClocks(t, env)
	keepAsks(c)
	reportAgain(t, c, to)
	c.Agents.StopAwaiting()
	next := created(t, c, "next")
	for next.Host != from {
		next = created(t, c, next.ID+"t")
	}
	check(t, c, at, time.Minute, to)
	if next = perform(t, c, next.ID); next.Host != to {
		t.Errorf("the server of this process is on %s\n%s", next.Host, text(next))
	}
	s = perform(t, c, "s")
	if s.Host != from || !strings.Contains(text(s), "it may have the guest") {
		t.Errorf("the server is on %s, want it on %s\n%s", s.Host, from, text(s))
	}
	reportAgain(t, c, from)
	check(t, c, at, time.Minute, to)
	if s = perform(t, c, "s"); s.Host != to {
		t.Errorf("the server is on %s, want it on %s\n%s", s.Host, to, text(s))
	}
}

// Without another host the server waits, and its history has one entry about it.
func TestServerWaitsWithoutAnotherHost(t *testing.T) {
	_, c, at := silentAgents(t, map[string]int{"a": 4})
	created(t, c, "s")
	for range 5 {
		check(t, c, at, followWithin+time.Second)
	}
	s := perform(t, c, "s")
	if s.State != lifecycle.Spawning || s.Host != "a" {
		t.Errorf("the server is %s on %q", s.State, s.Host)
	}
	got := text(s)
	if strings.Count(got, "waiting for host a") != 1 || !strings.Contains(got, "no other host is suitable") {
		t.Errorf("the history is\n%s", got)
	}
}

// A claim that compute has accepted may have become a guest: the server stays with its host.
func TestServerWithAcceptedClaimStays(t *testing.T) {
	_, c, at := silentAgents(t, map[string]int{"a": 4, "b": 4})
	s := created(t, c, "s")
	report := lifecycle.Report{Host: s.Host, Instance: "agent-" + s.Host, Number: 1,
		Event: lifecycle.GuestClaimed{Host: s.Host, Consumer: "s", Devices: []schedule.Picked{}}}
	if err := c.Guest(t.Context(), "s", "start", report); err != nil {
		t.Fatal(err)
	}
	check(t, c, at, 10*time.Minute)
	if now := perform(t, c, "s"); now.Host != s.Host {
		t.Errorf("the server has left %s\n%s", s.Host, text(now))
	}
}

// The agent has followed the assignments, and is stopped before it claims the devices: when it is silent, the server
// goes elsewhere. Its late claim is refused, so it builds nothing.
func TestServersLeaveSilentHost(t *testing.T) {
	_, c, at := silentAgents(t, map[string]int{"a": 4, "b": 4})
	s := created(t, c, "s")
	from, to := s.Host, map[string]string{"a": "b", "b": "a"}[s.Host]
	followAll(t, c, from)
	check(t, c, at, schedule.Silence-time.Second, to)
	if now := perform(t, c, "s"); now.Host != from {
		t.Fatal("the server left a host that is not silent")
	}
	check(t, c, at, 2*time.Second, to)
	if now := perform(t, c, "s"); now.Host != to {
		t.Errorf("the server is on %s, want %s\n%s", now.Host, to, text(now))
	}
	late := lifecycle.Report{Host: from, Instance: "agent-" + from, Number: 1,
		Event: lifecycle.GuestClaimed{Host: from, Consumer: "s", Devices: []schedule.Picked{}}}
	if err := c.Guest(context.Background(), "s", "start", late); !fault.Is(err, fault.Conflict) {
		t.Errorf("the late claim is accepted: %v", err)
	}
}

// The destination of a move does not answer: the move goes to another host.
func TestMoveLeavesDestinationThatDoesNotFollow(t *testing.T) {
	env, c, at := silentAgents(t, map[string]int{"a": 4, "b": 4, "c": 4})
	s := created(t, c, "s")
	source, number := s.Host, int64(0)
	tell := func(consumer string, event lifecycle.Event) {
		t.Helper()
		number++
		report := lifecycle.Report{Host: source, Instance: "agent-" + source, Number: number, Event: event}
		if err := c.Guest(t.Context(), consumer, "start", report); err != nil {
			t.Fatal(err)
		}
	}
	picked := []schedule.Picked{}
	tell("s", lifecycle.GuestRunning{Host: source, Consumer: "s", Devices: picked})
	const move = "11111111-2222-4333-8444-555555555555"
	if _, err := c.Act(t.Context(), "s", lifecycle.ActionRequested{ID: move, Action: lifecycle.Migrate}); err != nil {
		t.Fatal(err)
	}
	perform(t, c, "s")
	tell(move, lifecycle.GuestRunning{Host: source, Consumer: move, Devices: picked})
	perform(t, c, "s")
	tell(move, lifecycle.GuestStopped{Host: source, Consumer: move, Devices: picked})
	s = perform(t, c, "s")
	if s.Phase() != lifecycle.SpawningDestination {
		t.Fatalf("the move is %s\n%s", s.Phase(), text(s))
	}
	first := s.Host
	living := slices.DeleteFunc(slices.Sorted(maps.Keys(env.agents.devices)), func(h string) bool { return h == first })
	check(t, c, at, followWithin+time.Second, living...)
	if s = perform(t, c, "s"); s.Phase() != lifecycle.SpawningDestination || s.Host == first || s.Host == source {
		t.Errorf("the move is %s to %s after %s did not answer\n%s", s.Phase(), s.Host, first, text(s))
	}
}

// Several servers wait for an agent, and there is room for one of them elsewhere: one leaves, and the others wait. They
// would end in ERROR.
func TestServersLeaveHostOnlyWithRoomForEach(t *testing.T) {
	env, c, at := silentAgents(t, map[string]int{"a": 3, "b": 1})
	waiting := []string{}
	for n := 0; len(waiting) < 3; n++ {
		id := fmt.Sprint("s", n)
		if s := created(t, c, id); s.Host == "a" {
			waiting = append(waiting, id)
			continue
		}
		if err := c.Delete(t.Context(), id, lifecycle.Caller{}); err != nil {
			t.Fatal(err)
		}
		if s := perform(t, c, id); s.State != lifecycle.Deleted {
			t.Fatalf("%s is %s", id, s.State)
		}
	}
	check(t, c, at, followWithin+time.Second, "b")
	check(t, c, at, Times{}.withDefaults().Search+time.Second, "b") // the first has not been claimed yet
	hosts := map[string]int{}
	for _, id := range waiting {
		s := perform(t, c, id)
		if hosts[s.Host]++; s.State != lifecycle.Spawning {
			t.Errorf("%s is %s\n%s", id, s.State, text(s))
		}
	}
	check(t, c, at, Times{}.withDefaults().Search+time.Second, "b")
	if hosts["a"] != 2 || hosts["b"] != 1 || env.count(lifecycle.Spawning) != 3 {
		t.Errorf("servers of each host: %v\n%s", hosts, env.histories())
	}
}

// An open stream is not a report: a server is evacuated from a host whose agent is stopped.
func TestEvacuationFromHostWithStoppedAgent(t *testing.T) {
	_, c, at := silentAgents(t, map[string]int{"a": 1})
	closed := c.Agents.Connected("a")
	defer closed()
	evacuate := func() string {
		t.Helper()
		refusal, err := c.prepareAction(t.Context(), lifecycle.Server{Host: "a"},
			&lifecycle.ActionRequested{Action: lifecycle.Evacuate})
		if err != nil {
			t.Fatal(err)
		}
		return refusal
	}
	if evacuate() == "" || c.Agents.IsSilent("a") {
		t.Error("a living host is evacuated")
	}
	at.since += c.Silence + time.Second
	if refusal := evacuate(); refusal != "" || !c.Agents.IsSilent("a") {
		t.Errorf("the host is not evacuated: %q, silent %v", refusal, c.Agents.IsSilent("a"))
	}
}

// reportDown is a report of a host whose hypervisor can build no guests for this reason; empty: it can.
func reportDown(t *testing.T, c *Conductor, host, why string) {
	t.Helper()
	known, err := c.store.Host(t.Context(), host)
	if err != nil {
		t.Fatal(err)
	}
	known.Down = why
	from := schedule.Sender{Instance: known.Instance, Start: known.Start}
	if err := c.Agents.Report(t.Context(), known, from); err != nil {
		t.Fatal(err)
	}
	followAll(t, c, host)
}

// A hypervisor can build no guests, although the agent works. A server whose guest was begun there goes to another
// host, and compute names the former guest for removal; no further server is scheduled to the host until it can again.
func TestServersLeaveHostWhoseHypervisorIsDown(t *testing.T) {
	env, c, at := silentAgents(t, map[string]int{"a": 4, "b": 4})
	s := created(t, c, "s")
	from, to := s.Host, map[string]string{"a": "b", "b": "a"}[s.Host]
	report := lifecycle.Report{Host: from, Instance: "agent-" + from, Number: 1,
		Event: lifecycle.GuestClaimed{Host: from, Consumer: "s", Devices: []schedule.Picked{}}}
	if err := c.Guest(t.Context(), "s", "start", report); err != nil {
		t.Fatal(err)
	}
	reportDown(t, c, from, "connection refused")
	check(t, c, at, 0, to)
	if s = perform(t, c, "s"); s.State != lifecycle.Spawning || s.Host != to {
		t.Errorf("the server is %s on %s, want it on %s\n%s", s.State, s.Host, to, text(s))
	}
	if !strings.Contains(text(s), "its hypervisor can build no guests: connection refused") {
		t.Errorf("the history is\n%s", text(s))
	}
	if hosts, err := env.store.RemovalHosts(t.Context(), "s"); err != nil || !slices.Equal(hosts, []string{from}) {
		t.Errorf("the guest is named for removal on %v: %v", hosts, err)
	}
	for _, id := range []string{"s1", "s2"} {
		if next := created(t, c, id); next.Host != to {
			t.Errorf("%s is on %s, whose hypervisor is down\n%s", id, next.Host, text(next))
		}
	}
	reportDown(t, c, to, "it hangs")
	if next := created(t, c, "s3"); next.State != lifecycle.Error || !strings.Contains(text(next), "it hangs") {
		t.Errorf("without a host: %s\n%s", next.State, text(next))
	}
	reportDown(t, c, from, "")
	if next := created(t, c, "s4"); next.Host != from {
		t.Errorf("s4 is on %q\n%s", next.Host, text(next))
	}
}

// A guest that runs stays where it is while the hypervisor does not answer.
func TestActiveServerStaysWhileHypervisorIsDown(t *testing.T) {
	_, c, at := silentAgents(t, map[string]int{"a": 4, "b": 4})
	s := created(t, c, "s")
	for i, event := range []lifecycle.Event{
		lifecycle.GuestClaimed{Host: s.Host, Consumer: "s", Devices: []schedule.Picked{}},
		lifecycle.GuestRunning{Host: s.Host, Consumer: "s", Devices: []schedule.Picked{}}} {
		report := lifecycle.Report{Host: s.Host, Instance: "agent-" + s.Host, Number: int64(i + 1), Event: event}
		if err := c.Guest(t.Context(), "s", "start", report); err != nil {
			t.Fatal(err)
		}
	}
	reportDown(t, c, s.Host, "connection refused")
	check(t, c, at, time.Minute)
	if now := perform(t, c, "s"); now.State != lifecycle.Active || now.Host != s.Host {
		t.Errorf("the server is %s on %s\n%s", now.State, now.Host, text(now))
	}
}

// What is known of a hypervisor from a report before compute's restart, or of an agent that gives no signs of life, is
// no reason to give up a guest that was begun: the hypervisor may have made it.
func TestStaleReportOfHypervisorGivesUpNoGuest(t *testing.T) {
	env, c, at := silentAgents(t, map[string]int{"a": 4, "b": 4})
	s := created(t, c, "s")
	from, to := s.Host, map[string]string{"a": "b", "b": "a"}[s.Host]
	report := lifecycle.Report{Host: from, Instance: "agent-" + from, Number: 1,
		Event: lifecycle.GuestClaimed{Host: from, Consumer: "s", Devices: []schedule.Picked{}}}
	if err := c.Guest(t.Context(), "s", "start", report); err != nil {
		t.Fatal(err)
	}
	reportDown(t, c, from, "connection refused")
	stays := func(when string) {
		t.Helper()
		if now := perform(t, c, "s"); now.Host != from {
			t.Fatalf("%s the server left for %s\n%s", when, now.Host, text(now))
		}
	}
	restarted, later := withClocks(t, env)
	if _, err := restarted.Agents.AwaitReports(t.Context()); err != nil {
		t.Fatal(err)
	}
	check(t, restarted, later, time.Second, to)
	stays("after a restart")
	at.since += presence.DownIsKnownFor + time.Second
	check(t, c, at, 0, to)
	stays("of a late agent")
}

// A server without another host, and one whose change fails, do not stop the servers after them, although they have the
// same flavor.
func TestOneServerDoesNotStopOthersFromLeaving(t *testing.T) {
	for _, fails := range []bool{false, true} {
		_, c, at := silentAgents(t, map[string]int{"a": 4, "b": 4})
		from, to, first, second := twoOnOneHost(t, c)
		if _, err := c.store.Change(t.Context(), first, func(s lifecycle.Server) lifecycle.Server {
			if !fails {
				s.FailedHosts = map[string]string{to: "it failed there"}
			}
			return s
		}); err != nil {
			t.Fatal(err)
		}
		apply := c.monitor.apply
		c.monitor.apply = func(ctx context.Context, server string, event lifecycle.Event) error {
			if fails && server == first {
				return fault.New(fault.Unavailable, "the database does not answer")
			}
			return apply(ctx, server, event)
		}
		at.since += followWithin + time.Second
		reportAgain(t, c, to)
		_ = c.CheckAssignments(t.Context())
		at.since += followWithin + time.Second
		reportAgain(t, c, to)
		if err := c.CheckAssignments(t.Context()); (err != nil) != fails {
			t.Errorf("fails %v: %v", fails, err)
		}
		for id, want := range map[string]string{first: from, second: to} {
			if s := perform(t, c, id); s.Host != want {
				t.Errorf("fails %v: %s is on %s, want %s\n%s", fails, id, s.Host, want, text(s))
			}
		}
	}
}

// A search for servers that wait for a late agent has found none; when its hypervisor is down, others are concerned.
func TestHypervisorIsDownAfterAgentWasLate(t *testing.T) {
	_, c, at := silentAgents(t, map[string]int{"a": 4, "b": 4})
	s := created(t, c, "s")
	from, to := s.Host, map[string]string{"a": "b", "b": "a"}[s.Host]
	report := lifecycle.Report{Host: from, Instance: "agent-" + from, Number: 1,
		Event: lifecycle.GuestClaimed{Host: from, Consumer: "s", Devices: []schedule.Picked{}}}
	if err := c.Guest(t.Context(), "s", "start", report); err != nil {
		t.Fatal(err)
	}
	check(t, c, at, followWithin+time.Second, to)
	reportDown(t, c, from, "connection refused")
	check(t, c, at, 0, to)
	if now := perform(t, c, "s"); now.Host != to {
		t.Errorf("the server is on %s, want %s\n%s", now.Host, to, text(now))
	}
}

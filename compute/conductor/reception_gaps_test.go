package conductor

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/compute/presence"
	"github.com/openberth/berth/compute/schedule"
)

// Compute is stopped, or its database does not answer: no agent is silent or late because of that, neither before
// compute has noticed it nor after it. Silence in a time in which compute could receive reports counts.
func TestAgentsAreNotSilentWhileComputeCannotReceive(t *testing.T) {
	_, c, at := silentAgents(t, map[string]int{"a": 4, "b": 4})
	c.Agents.Watch()
	tick := func() {
		t.Helper()
		if err := c.Agents.CheckReceives(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.CheckAssignments(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	tick()
	at.since += time.Second
	c.Agents.MarkDead("b")
	s := created(t, c, "s")
	tick()
	judge := func(when string, silent bool) {
		t.Helper()
		_, quiet := c.Agents.LastSign("a")
		stranger := c.Agents.Admit(t.Context(), "a", schedule.Sender{Instance: "other", Start: "other"})
		if c.Agents.IsSilent("a") != silent || quiet >= c.Silence != silent || (stranger == nil) != silent {
			t.Errorf("%s: silent %v, quiet for %s, another agent: %v", when, c.Agents.IsSilent("a"), quiet, stranger)
		}
	}
	at.since += 10 * time.Minute
	judge("before compute has noticed its pause", false)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if c.Agents.CheckReceives(ended) == nil {
		t.Fatal("the database answers, so the test shows nothing")
	}
	judge("while the database does not answer", false)
	tick()
	judge("after the pause", false)
	if now := perform(t, c, "s"); now.Host != s.Host || c.Agents.NotFollowing(s.Host) != "" {
		t.Errorf("the server is on %s, want it on %s\n%s", now.Host, s.Host, text(now))
	}
	if c.Agents.Returned("b") {
		t.Error("a dead host has returned because compute was stopped")
	}
	for range (c.Silence + presence.LongestGap) / receivesEvery {
		at.since += receivesEvery
		tick()
	}
	judge("silent while compute could receive", true)
}

// An agent that cannot report its host has said so shortly before compute was stopped. Compute knows that when it
// continues, so the servers of the host are not evacuated. Afterwards the agent must send it again.
func TestStartFailureOutlastsAPauseOfCompute(t *testing.T) {
	_, c, at := silentAgents(t, map[string]int{"a": 4})
	c.Agents.Watch()
	receives := func() {
		t.Helper()
		if err := c.Agents.CheckReceives(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	alive := func() string {
		t.Helper()
		why, err := c.Agents.WhyAlive(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		return why
	}
	for range 2 * c.Silence / receivesEvery {
		at.since += receivesEvery
		receives()
	}
	next := schedule.Sender{Instance: "agent-a", Start: "next", Previous: []string{"start"}}
	if err := c.Agents.StartFailed(t.Context(), "a", next, "start libvirtd"); err != nil {
		t.Fatal(err)
	}
	at.since += 10 * time.Minute
	receives()
	if why := alive(); !strings.Contains(why, "start libvirtd") {
		t.Errorf("after the pause: %q", why)
	}
	for range c.Silence / receivesEvery {
		at.since += receivesEvery
		receives()
	}
	if why := alive(); why != "" {
		t.Errorf("silent while compute could receive: %q", why)
	}
}

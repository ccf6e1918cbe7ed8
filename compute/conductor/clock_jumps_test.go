package conductor

import (
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

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
	if err := c.Agents.Report(t.Context(), host, from); err != nil {
		t.Fatal(err)
	}
	stranger := schedule.Sender{Instance: "b", Start: "x"}
	check := func(what string, alive, schedulable, admitsAnother bool) {
		t.Helper()
		refusal, err := c.prepareAction(t.Context(), lifecycle.Server{Host: "a"},
			&lifecycle.ActionRequested{Action: lifecycle.Evacuate})
		if err != nil || (refusal != "") != alive {
			t.Errorf("%s: evacuate: %q %v", what, refusal, err)
		}
		if err := c.Agents.Admit(t.Context(), "a", stranger); (err == nil) != admitsAnother {
			t.Errorf("%s: another agent: %v", what, err)
		}
		picture, err := c.Scheduler.Input(t.Context(), offer("a"))
		if err != nil {
			t.Fatal(err)
		}
		_, refusals := schedule.Choose(picture, nil, 1)
		if why := schedule.Summarise(refusals); strings.Contains(why, "has not reported for") == schedulable {
			t.Errorf("%s: scheduling: %q", what, why)
		}
	}
	at.since = schedule.Silence - time.Second
	check("a minute later", true, true, false)
	for _, jump := range []time.Duration{10 * time.Minute, 30 * time.Minute, 1000 * time.Hour, -time.Hour} {
		at.wall = jump
		check("the wall clock jumps by "+jump.String(), true, true, false)
	}
	closed := c.Agents.Connected("a")
	defer closed()
	at.since = 2 * time.Minute
	check("an open stream, without a sign of life for long", false, false, true)
	if err := c.Agents.Alive(t.Context(), "a", from); err != nil {
		t.Fatal(err)
	}
	check("a sign of life", true, true, false)
	at.since += schedule.Silence + time.Second
	for _, jump := range []time.Duration{0, -time.Hour, -1000 * time.Hour} {
		at.wall = jump
		check("dead, and the wall clock jumps by "+jump.String(), false, false, true)
	}
	c, at = withClocks(t, env) // a restart
	at.wall = 24 * time.Hour
	check("just after a restart", true, true, false)
	at.since = schedule.Silence - time.Second
	check("some time after a restart, without a report", true, false, false)
	at.since = schedule.Silence
	check("silent since the restart", false, false, true)
}

// offer is one candidate on a host, without devices.
func offer(host string) placement.Candidates {
	root := provider.ID("root-" + host)
	return placement.Candidates{List: []placement.Candidate{{Allocation: resource.Allocation{root: {"VCPU": 1}}}}}
}

package conductor

import (
	"strings"
	"testing"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
)

// A start that cannot report its host keeps servers away from it, and does not count as a sign of life of another
// start. What it sends after its report, or while another start serves the host, has no effect.
func TestStartFailures(t *testing.T) {
	env := newCloud(t, map[string]int{"a": 1})
	c, at := withClocks(t, env)
	host, err := env.store.Host(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	first := schedule.Sender{Instance: "agent-a", Start: "start"}
	report := func(from schedule.Sender) {
		t.Helper()
		if err := c.Agents.Report(t.Context(), host, from); err != nil {
			t.Fatal(err)
		}
	}
	failed := func(from schedule.Sender, refused, shown bool) {
		t.Helper()
		err := c.Agents.StartFailed(t.Context(), "a", from, "start libvirtd")
		if fault.Is(err, fault.Conflict) != refused || err != nil && !refused {
			t.Errorf("%s: %v", from.Start, err)
		}
		if got := c.Agents.StartFailures()["a"].Why; (got != "") != shown {
			t.Errorf("%s: shown is %q", from.Start, got)
		}
		picture, err := c.Scheduler.Input(t.Context(), offer("a"))
		if err != nil {
			t.Fatal(err)
		}
		_, refusals := schedule.Choose(picture, nil, 1)
		if why := schedule.Summarise(refusals); strings.Contains(why, "start libvirtd") != shown {
			t.Errorf("%s: scheduling: %q", from.Start, why)
		}
	}
	report(first)
	failed(first, false, false)
	failed(schedule.Sender{Instance: "other", Start: "x"}, true, false)
	next := schedule.Sender{Instance: "agent-a", Start: "next", Previous: []string{"start"}}
	at.since = schedule.Silence
	failed(next, false, true)
	report(next)
	failed(next, false, false)
	at.since = 3 * schedule.Silence
	if err := c.Agents.StartFailed(t.Context(), "a", schedule.Sender{Instance: "other", Start: "x"}, "x"); err != nil {
		t.Error(err)
	}
	if why, err := c.Agents.WhyAlive(t.Context(), "a"); err != nil || !strings.Contains(why, "its agent runs") {
		t.Errorf("liveness %q %v", why, err)
	}
	at.since += schedule.Silence
	if got := c.Agents.StartFailures(); len(got) != 0 {
		t.Errorf("after a minute: %v", got)
	}
	if _, quiet := c.Agents.LastSign("a"); quiet < schedule.Silence {
		t.Errorf("it counts as a sign of life: %s", quiet)
	}
}

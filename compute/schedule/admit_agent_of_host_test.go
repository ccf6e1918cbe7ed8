package schedule_test

import (
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/compute/schedule"
)

// TestAdmitOneStartOfAgent checks that only one start of one agent may serve a host.
func TestAdmitOneStartOfAgent(t *testing.T) {
	now := schedule.Host{Name: "h", Instance: "a", Start: "s1", ProcessSpace: "boot 1"}
	same := schedule.Sender{Instance: "a", Start: "s2", Previous: []string{"s0", "s1"}, ProcessSpace: "boot 1"}
	rebooted := schedule.Sender{Instance: "a", Start: "s2", Previous: []string{"s1"}, ProcessSpace: "boot 2"}
	other := schedule.Sender{Instance: "b", Start: "s9", ProcessSpace: "boot 1"}
	copied := schedule.Sender{Instance: "a", Start: "s3", Previous: []string{"s0"}, ProcessSpace: "boot 1"}
	for _, c := range []struct {
		what    string
		has     schedule.Host
		from    schedule.Sender
		seen    schedule.Liveness
		refusal string // part of the refusal; empty: admitted
		wait    time.Duration
	}{
		{"no agent before", schedule.Host{Name: "h"}, other, schedule.Liveness{}, "", 0},
		{"the same start", now, schedule.Sender{Instance: "a", Start: "s1"}, schedule.Liveness{Streams: 1}, "", 0},
		{"restarted on the same boot", now, same, schedule.Liveness{Streams: 1}, "", 0},
		{"the journal of an agent of a release without starts", schedule.Host{Name: "h", Instance: "a"}, rebooted,
			schedule.Liveness{}, "", 0},
		{"after a boot, the stream still open", now, rebooted, schedule.Liveness{Streams: 1}, "connected now", 0},
		{"after a boot, just disconnected", now, rebooted, schedule.Liveness{Quiet: 20 * time.Second},
			"the agent's directory or its machine was copied", 40 * time.Second},
		{"after a boot", now, rebooted, schedule.Liveness{Quiet: schedule.Reconnect}, "", 0},
		{"process space unknown", schedule.Host{Name: "h", Instance: "a", Start: "s1"}, schedule.Sender{Instance: "a",
			Start:    "s2",
			Previous: []string{"s1"}},
			schedule.Liveness{}, "was copied", time.Minute},
		{"another agent", now, other, schedule.Liveness{Quiet: schedule.Silence - time.Second},
			"another agent serves host h: instance a, last seen", 0},
		{"another agent, connected", now, other, schedule.Liveness{Streams: 1, Quiet: time.Hour}, "instance a, connected now",
			0},
		{"another agent after Silence", now, other, schedule.Liveness{Quiet: schedule.Silence}, "", 0},
		{"a copy that does not continue the admitted start", now, copied, schedule.Liveness{Quiet: schedule.Reconnect},
			"was copied", 0},
		{"the start that was replaced", schedule.Host{Name: "h", Instance: "a", Start: "s2", ProcessSpace: "boot 1"},
			schedule.Sender{Instance: "a", Start: "s1", ProcessSpace: "boot 1"}, schedule.Liveness{Streams: 1},
			"another start of the same journal", 0},
	} {
		refusal, wait := c.has.Admit(c.from, c.seen)
		if (refusal == "") != (c.refusal == "") || !strings.Contains(refusal, c.refusal) || wait != c.wait {
			t.Errorf("%s: %q, wait %s", c.what, refusal, wait)
		}
	}
}

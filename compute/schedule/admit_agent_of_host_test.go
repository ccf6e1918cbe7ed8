package schedule_test

import (
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/compute/schedule"
)

// TestAdmitOneStartOfAgent checks that only one start of one agent may serve a host.
func TestAdmitOneStartOfAgent(t *testing.T) {
	now := schedule.Host{Name: "h", Instance: "a", Start: "s1", LockID: "machine 1"}
	same := schedule.Sender{Instance: "a", Start: "s2", Previous: []string{"s0", "s1"}, LockID: "machine 1"}
	moved := schedule.Sender{Instance: "a", Start: "s2", Previous: []string{"s1"}, LockID: "machine 2"}
	other := schedule.Sender{Instance: "b", Start: "s9", LockID: "machine 1"}
	copied := schedule.Sender{Instance: "a", Start: "s3", Previous: []string{"s0"}, LockID: "machine 1"}
	for _, c := range []struct {
		what    string
		has     schedule.Host
		from    schedule.Sender
		seen    schedule.Liveness
		refusal string // part of the refusal; empty: admitted
		wait    time.Duration
	}{
		{"no agent before", schedule.Host{Name: "h"}, other, schedule.Liveness{}, "", 0},
		{"the same start", now, schedule.Sender{Instance: "a", Start: "s1"}, schedule.Liveness{}, "", 0},
		{"restarted on the same machine", now, same, schedule.Liveness{}, "", 0},
		{"the journal of an agent of a release without starts", schedule.Host{Name: "h", Instance: "a"}, moved,
			schedule.Liveness{}, "", 0},
		{"on another machine, just seen", now, moved, schedule.Liveness{Quiet: 20 * time.Second},
			"the agent's directory or its machine was copied", 40 * time.Second},
		{"on another machine", now, moved, schedule.Liveness{Quiet: schedule.Reconnect}, "", 0},
		{"process space unknown", schedule.Host{Name: "h", Instance: "a", Start: "s1"}, schedule.Sender{Instance: "a",
			Start:    "s2",
			Previous: []string{"s1"}},
			schedule.Liveness{}, "was copied", time.Minute},
		{"another agent", now, other, schedule.Liveness{Quiet: schedule.Silence - time.Second},
			"another agent serves host h: instance a, last seen", 0},
		{"another agent after Silence", now, other, schedule.Liveness{Quiet: schedule.Silence}, "", 0},
		{"a copy that does not continue the admitted start", now, copied, schedule.Liveness{Quiet: schedule.Silence - 1},
			"was copied", 0},
		{"the start that was replaced", schedule.Host{Name: "h", Instance: "a", Start: "s2", LockID: "machine 1"},
			schedule.Sender{Instance: "a", Start: "s1", LockID: "machine 1"}, schedule.Liveness{},
			"another start of the same journal", 0},
	} {
		refusal, wait := c.has.Admit(c.from, c.seen)
		if (refusal == "") != (c.refusal == "") || !strings.Contains(refusal, c.refusal) || wait != c.wait {
			t.Errorf("%s: %q, wait %s", c.what, refusal, wait)
		}
	}
}

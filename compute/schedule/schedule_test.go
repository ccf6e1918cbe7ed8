package schedule_test

import (
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/compute/schedule"
)

// One start of one agent serves a host.
func TestAdmit(t *testing.T) {
	now := schedule.Host{Name: "h", Instance: "a", Start: "s1", Place: "boot 1"}
	same := schedule.Sender{Instance: "a", Start: "s2", Previous: []string{"s0", "s1"}, Place: "boot 1"}
	rebooted := schedule.Sender{Instance: "a", Start: "s2", Previous: []string{"s1"}, Place: "boot 2"}
	other := schedule.Sender{Instance: "b", Start: "s9", Place: "boot 1"}
	copied := schedule.Sender{Instance: "a", Start: "s3", Previous: []string{"s0"}, Place: "boot 1"}
	for _, c := range []struct {
		what    string
		has     schedule.Host
		from    schedule.Sender
		signs   schedule.Signs
		refusal string // a part of it; empty: admitted
		wait    time.Duration
	}{
		{"no agent before", schedule.Host{Name: "h"}, other, schedule.Signs{}, "", 0},
		{"the same start", now, schedule.Sender{Instance: "a", Start: "s1"}, schedule.Signs{Streams: 1}, "", 0},
		{"restarted on the same boot", now, same, schedule.Signs{Streams: 1}, "", 0},
		{"the journal of an agent from before there were starts", schedule.Host{Name: "h", Instance: "a"}, rebooted, schedule.Signs{}, "", 0},
		{"after a boot, the stream still open", now, rebooted, schedule.Signs{Streams: 1}, "connected now", 0},
		{"after a boot, just disconnected", now, rebooted, schedule.Signs{Quiet: 20 * time.Second}, "the agent's directory or its machine was copied", 40 * time.Second},
		{"after a boot", now, rebooted, schedule.Signs{Quiet: schedule.Reconnect}, "", 0},
		{"place unknown", schedule.Host{Name: "h", Instance: "a", Start: "s1"}, schedule.Sender{Instance: "a", Start: "s2", Previous: []string{"s1"}},
			schedule.Signs{}, "was copied", time.Minute},
		{"another agent", now, other, schedule.Signs{Quiet: schedule.Silence - time.Second}, "another agent serves host h: instance a, last heard", 0},
		{"another agent, connected", now, other, schedule.Signs{Streams: 1, Quiet: time.Hour}, "instance a, connected now", 0},
		{"another agent after the silence", now, other, schedule.Signs{Quiet: schedule.Silence}, "", 0},
		{"a copy that does not continue the admitted start", now, copied, schedule.Signs{Quiet: schedule.Reconnect}, "was copied", 0},
		{"the start that was replaced", schedule.Host{Name: "h", Instance: "a", Start: "s2", Place: "boot 1"},
			schedule.Sender{Instance: "a", Start: "s1", Place: "boot 1"}, schedule.Signs{Streams: 1}, "another start of the same journal", 0},
	} {
		refusal, wait := c.has.Admit(c.from, c.signs)
		if (refusal == "") != (c.refusal == "") || !strings.Contains(refusal, c.refusal) || wait != c.wait {
			t.Errorf("%s: %q, wait %s", c.what, refusal, wait)
		}
	}
}

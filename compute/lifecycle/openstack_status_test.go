package lifecycle

import "testing"

func TestStatus(t *testing.T) {
	ran, broken := fresh(), fresh()
	ran.Launched = noon
	broken.Fault = &Fault{Message: "x"}
	for _, c := range []struct {
		server             Server
		state              State
		status, vm, doing  string
		placed, assignment bool
	}{
		{fresh(), Preparing, "BUILD", "building", "scheduling", false, false},
		{fresh(), Scheduling, "BUILD", "building", "scheduling", false, false},
		{fresh(), Claiming, "BUILD", "building", "scheduling", false, false},
		{fresh(), Spawning, "BUILD", "building", "spawning", true, true},
		{ran, Active, "ACTIVE", "active", "", true, true},
		{fresh(), Rescheduling, "BUILD", "building", "scheduling", false, false},
		{broken, Failing, "BUILD", "building", "", false, false},
		{broken, Error, "ERROR", "error", "", false, false},
		{fresh(), DeletingGuest, "BUILD", "building", "deleting", true, false},
		{ran, DeletingGuest, "ACTIVE", "active", "deleting", true, false},
		{broken, DeletingAllocation, "ERROR", "error", "deleting", false, false},
		{ran, Deleted, "DELETED", "deleted", "", false, false},
	} {
		s := c.server
		s.State, s.Host = c.state, "h"
		if s.Status() != c.status || s.VMState() != c.vm || s.TaskState() != c.doing ||
			(s.AllocatedHost() == "h") != c.placed || (s.Assignment() == "h") != c.assignment {
			t.Errorf("%s: %s %s %q %q %q", c.state, s.Status(), s.VMState(), s.TaskState(), s.AllocatedHost(), s.Assignment())
		}
	}
}

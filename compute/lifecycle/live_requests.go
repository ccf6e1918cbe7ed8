package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
)

// This file has what operators request of a live migration in progress: to abort it, or to force its completion.

// refuseLiveRequest returns why a live migration cannot be aborted or forced; empty: it can.
func (s Server) refuseLiveRequest(a Action) string {
	if text := s.RefuseNotMigrating(a); text != "" {
		return text
	}
	return s.Migration.RefuseLiveRequest(a, s.ID, s.Migration.ID, true)
}

// RefuseNotMigrating returns why the states of the server do not permit to abort or to force a live migration, in the
// words of the Compute API; empty: they do.
func (s Server) RefuseNotMigrating(a Action) string {
	if vm := s.VMState(); a == ForceLive && vm != "active" {
		return fmt.Sprintf("Cannot '%s' instance %s while it is in vm_state %s", a, s.ID, vm)
	}
	if task := s.TaskState(); task != string(MigratingLive) {
		return fmt.Sprintf("Cannot '%s' instance %s while it is in task_state %s", a, s.ID, cmp.Or(task, "None"))
	}
	return ""
}

// RefuseLiveRequest returns why the status of a live migration does not permit to abort or to force it; empty: it does.
// id is what the caller calls the migration. queued: one may be aborted that is not prepared yet, which Nova calls
// queued, and which is accepted or preparing here.
func (m Migration) RefuseLiveRequest(a Action, server, id string, queued bool) string {
	what, allowed := string(a), []string{"running"}
	switch {
	case a == ForceLive:
		what = "force complete"
	case queued:
		allowed = []string{"accepted", "queued", "preparing", "running"}
	}
	if slices.Contains(allowed, m.Status) {
		return ""
	}
	return fmt.Sprintf("Migration %s state of instance %s is %s. Cannot %s while the migration is in this state.", id,
		server, m.Status, what)
}

// isAborted reports whether the move in progress must end at its source.
func (s Server) isAborted() bool { return s.Move != nil && s.Move.Aborted }

package lifecycle

import (
	"time"
)

// PastAction is an action on a server, with the entries of the history that belong to it. Only a creation may have
// none.
type PastAction struct {
	Name    string // as in OpenStack's os-instance-actions: create, reboot, live-migration, …
	By      Caller
	Begun   time.Time
	Entries []HistoryEntry
	Failed  bool   // an entry reports a failure
	Ended   bool   // the last entry is not one of an action in progress
	change  string // id of the change of a port; empty: it is another action
}

// createAction is the name of the first action of every server.
const createAction = "create"

// deleteAction is the name of the deletion.
const deleteAction = "delete"

// actionNames are the names of past actions that differ from those of the actions.
var actionNames = map[Action]string{Live: "live-migration", Reset: "resetState", AbortLive: "live_migration_cancel",
	ForceLive: "live_migration_force_complete"}

// PastName returns the name of the action in OpenStack's os-instance-actions.
func (a Action) PastName() string {
	if name := actionNames[a]; name != "" {
		return name
	}
	return string(a)
}

// PastActions returns the actions of the server's history, oldest first. The first one is its creation. Of a long
// history only the beginning and the end are kept, and so are its actions.
func (s Server) PastActions() []PastAction {
	list := []PastAction{{Name: createAction, Begun: s.Created,
		By: Caller{Request: s.CreateRequest, User: s.User, Project: s.Project}}}
	for _, e := range s.History {
		if e.Action != "" {
			list = append(list, PastAction{Name: e.Action, Begun: e.At, change: e.Change,
				By: Caller{Request: e.Request, User: e.User, Project: e.Project}})
		}
		last := &list[len(list)-1]
		last.Entries = append(last.Entries, e)
		last.Failed = last.Failed || isFailure(e.Text)
	}
	for i := range list {
		a := &list[i]
		a.Ended = i < len(list)-1 || s.TaskState() == "" || s.State == Deleted
		if a.change != "" {
			outcome, _, ended := s.PortOutcome(a.change)
			a.Ended, a.Failed = ended, a.Failed || outcome.Refused != ""
		}
	}
	return list
}

// Updated returns when the last entry of the action was added.
func (a PastAction) Updated() time.Time {
	if len(a.Entries) == 0 {
		return a.Begun
	}
	return a.Entries[len(a.Entries)-1].At
}

// Failure returns the first entry that reports a failure; empty: there is none.
func (a PastAction) Failure() string {
	for _, e := range a.Entries {
		if isFailure(e.Text) {
			return e.Text
		}
	}
	return ""
}

// IsFailure reports whether the entry reports a failure.
func (e HistoryEntry) IsFailure() bool { return isFailure(e.Text) }

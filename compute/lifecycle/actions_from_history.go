package lifecycle

import "strings"

// PastAction is an action on a server, with the entries of the history that belong to it, at least one.
type PastAction struct {
	Name    string // as in OpenStack's os-instance-actions: create, reboot, live-migration, …
	Entries []HistoryEntry
	Failed  bool // an entry reports a failure
	Ended   bool // the last entry is not one of an action in progress
}

// actionBeginnings maps the beginnings of the entries with which actions begin to the actions. The history is the only
// record of past actions, so these texts must match those of applyAction, beginMove and onDeleteRequested; a test
// performs every action and compares.
var actionBeginnings = []struct{ text, action string }{
	{string(Start) + " requested: ", "start"},
	{string(Stop) + " requested: ", "stop"},
	{string(Reboot) + " requested: ", "reboot"},
	{string(Rebuild) + " requested: ", "rebuild"},
	{string(Resizing) + " from ", "resize"},
	{string(Migrating) + " from ", "migrate"},
	{string(LiveMigration) + " from ", "live-migration"},
	{string(Evacuating) + " from ", "evacuate"},
	{"move confirmed; ", "confirmResize"},
	{"reverting the move; ", "revertResize"},
	{"shelving; ", "shelve"},
	{"unshelving: ", "unshelve"},
	{"deletion requested", "delete"},
}

// failureBeginnings are the beginnings of the entries that report that an action failed.
var failureBeginnings = []string{
	"No valid host was found", "The guest cannot be ", "The server failed on ", "the guest failed on ",
	"The live migration failed on ", "The server cannot be shelved", "The move cannot be reverted",
}

// PastActions returns the actions of the server's history, oldest first. The first one is its creation. Of a long
// history only the beginning and the end are kept, and so are its actions.
func (s Server) PastActions() []PastAction {
	var list []PastAction
	for _, e := range s.History {
		name := beginning(e.Text)
		switch {
		case len(list) == 0:
			list = append(list, PastAction{Name: "create"})
		case name == "" && e.Text == "deleted" && list[len(list)-1].Name != "delete":
			list = append(list, PastAction{Name: "delete"}) // the guest never existed, so it was deleted at once
		case name != "":
			list = append(list, PastAction{Name: name})
		}
		last := &list[len(list)-1]
		last.Entries = append(last.Entries, e)
		last.Failed = last.Failed || isFailure(e.Text)
	}
	for i := range list {
		list[i].Ended = i < len(list)-1 || s.TaskState() == "" || s.State == Deleted
	}
	return list
}

// beginning returns the action that begins with an entry of this text, or an empty string.
func beginning(text string) string {
	for _, b := range actionBeginnings {
		if strings.HasPrefix(text, b.text) {
			return b.action
		}
	}
	return ""
}

// isFailure reports whether an entry of this text reports a failure.
func isFailure(text string) bool {
	for _, b := range failureBeginnings {
		if strings.HasPrefix(text, b) {
			return true
		}
	}
	return false
}

// IsFailure reports whether the entry reports a failure.
func (e HistoryEntry) IsFailure() bool { return isFailure(e.Text) }

package lifecycle

import (
	"slices"
	"time"
)

const (
	// entries kept that neither begin an action nor report a failure; of a longer history the beginning and the end
	maxHistory  = 64
	historyHead = 8   // those kept from the beginning
	maxActions  = 128 // the others kept at most, the newest
)

// addHistory returns the server with a further history entry. A repeated text only increments the count of the last
// entry, so a long wait does not displace the earlier entries. An entry that begins an action is never repeated:
// another action has another request.
func addHistory(s Server, now time.Time, text string) Server {
	text = shorten(text)
	s.Updated = now
	s.History = slices.Clone(s.History)
	if n := len(s.History); n > 0 && s.History[n-1].Text == text && s.History[n-1].Action == "" {
		s.History[n-1].Times++
		s.History[n-1].At = now
		return s
	}
	s.History = append(s.History, HistoryEntry{At: now, Text: text, Times: 1})
	s.History = trimHistory(s.History)
	return s
}

// trimHistory deletes what a history has too much. The beginnings of actions stay longest, because users are shown
// them. It changes the list.
func trimHistory(list []HistoryEntry) []HistoryEntry {
	passing, passingAt, lastingAt := 0, -1, -1
	for i, e := range list {
		switch lasting := e.Action != "" || isFailure(e.Text); {
		case lasting && lastingAt < 0:
			lastingAt = i
		case !lasting:
			if passing++; passing == historyHead+1 {
				passingAt = i
			}
		}
	}
	if len(list)-passing >= maxActions { // the last entry may become the beginning of an action
		return slices.Delete(list, lastingAt, lastingAt+1)
	}
	if passing > maxHistory {
		return slices.Delete(list, passingAt, passingAt+1)
	}
	return list
}

// Caller is who requests an action on a server, and by which request.
type Caller struct {
	Request       string // id of the request: req-UUID
	User, Project string
}

// beginAction returns after, which an accepted request has made of before, with the action in the history: the first
// entry that the request has added becomes its beginning. If it has added none, it was not accepted. change is the id
// of the change of a port, or empty.
func beginAction(before, after Server, name, change string, by Caller) Server {
	at := len(after.History)
	for at > 0 && !slices.Contains(before.History, after.History[at-1]) {
		at--
	}
	if name == "" || at == len(after.History) {
		return after
	}
	begun := &after.History[at] // addHistory has cloned the list
	begun.Action, begun.Request, begun.User, begun.Project, begun.Change = name, by.Request, by.User, by.Project, change
	return after
}

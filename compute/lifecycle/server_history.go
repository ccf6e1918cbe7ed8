package lifecycle

import (
	"slices"
	"time"
)

const (
	maxHistory  = 64 // entries kept; of a longer history the beginning and the end
	historyHead = 8  // entries kept from the beginning
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
	if len(s.History) > maxHistory {
		s.History = slices.Delete(s.History, historyHead, historyHead+len(s.History)-maxHistory)
	}
	return s
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

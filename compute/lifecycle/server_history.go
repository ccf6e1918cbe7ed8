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
// entry, so a long wait does not displace the earlier entries.
func addHistory(s Server, now time.Time, text string) Server {
	text = shorten(text)
	s.Updated = now
	s.History = slices.Clone(s.History)
	if n := len(s.History); n > 0 && s.History[n-1].Text == text {
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

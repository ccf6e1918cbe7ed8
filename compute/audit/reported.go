package audit

import (
	"fmt"
	"maps"
	"strings"
	"time"
)

// Reported is what a periodic audit of the whole cloud ([audit] interval, `berth audit run`) has found on one host.
type Reported struct {
	Count int
	First []string // a clause for each of the first ones
}

// SetReported replaces what the periodic audit has found, by host. It is shown as a condition until a time: an audit
// that does not run any more says nothing about hosts.
func (a *Auditor) SetReported(found map[string]Reported, until time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reported, a.reportedUntil = found, until
}

// Reported returns what SetReported has set, and until when it is shown; nothing after that.
func (a *Auditor) Reported() (found map[string]Reported, until time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.Now().Before(a.reportedUntil) {
		return nil, time.Time{}
	}
	return maps.Clone(a.reported), a.reportedUntil
}

// condition returns the condition of a host, or none.
func (r Reported) condition() []string {
	if r.Count == 0 {
		return nil
	}
	text := strings.Join(r.First, "; ")
	if more := r.Count - len(r.First); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return []string{"the services differ, as a periodic audit has found: " + text + "; `berth audit` shows what heals it"}
}

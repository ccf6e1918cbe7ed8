package audit

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/openberth/berth/condition"
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
	before := a.reported
	if !a.Now().Before(a.reportedUntil) {
		before = nil
	}
	since := map[string]time.Time{}
	for host := range found {
		since[host] = a.Now()
		if _, known := before[host]; known {
			since[host] = a.reportedSince[host]
		}
	}
	a.reported, a.reportedSince, a.reportedUntil = found, since, until
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

// condition returns the condition of a host.
func (r Reported) condition() condition.Condition {
	text := strings.Join(r.First, "; ")
	if more := r.Count - len(r.First); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return condition.New(condition.Differences, "", "the services differ, as a periodic audit has found: "+text+
		"; `berth audit` shows what heals it")
}

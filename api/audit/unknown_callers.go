package audit

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

const summaryTime = time.Minute // between summaries

// unknownCallers counts the requests of unknown callers since the last summary.
type unknownCallers struct {
	requests map[refused]int64
	timer    *time.Timer // of the summary; nil: no requests have been counted
}

// refused is what requests of unknown callers are counted by.
type refused struct {
	service string
	status  int
}

// CountUnknown counts a refused request of a caller that was not authenticated. Each minute there is one event with the
// number for each service and status: who has no account must not be able to fill the disk.
func (l *Log) CountUnknown(service string, status int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unknown.requests[refused{service, status}]++; l.unknown.timer == nil {
		l.unknown.timer = time.AfterFunc(summaryTime, l.summarise)
	}
}

// summarise records how many requests of unknown callers were refused since the last summary.
func (l *Log) summarise() {
	l.mu.Lock()
	counts := l.unknown.requests
	stop(l.unknown.timer)
	l.unknown = unknownCallers{requests: map[refused]int64{}}
	l.mu.Unlock()
	for _, of := range slices.SortedFunc(maps.Keys(counts), func(a, b refused) int {
		return cmp.Or(cmp.Compare(a.service, b.service), cmp.Compare(a.status, b.status))
	}) {
		l.Record(unknownEvent(of, counts[of], l.now()))
	}
}

// unknownEvent returns the event about refused requests of unknown callers.
func unknownEvent(of refused, n int64, now time.Time) Event {
	return Event{TypeURI: eventURI, ID: rand.Text(), EventType: "monitor", EventTime: now.UTC().Format(timeFormat),
		Action: "authenticate", Outcome: "failure",
		Initiator: Resource{TypeURI: "service/security/account/user", ID: "unknown"},
		Target:    Resource{TypeURI: "service/" + of.service, ID: "none", Name: fmt.Sprintf("%d requests", n)},
		Observer:  Resource{TypeURI: "service/" + of.service, ID: "target", Name: of.service},
		Reason:    Reason{ReasonType: "HTTP", ReasonCode: strconv.Itoa(of.status)}}
}

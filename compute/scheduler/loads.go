package scheduler

import (
	"sync"
	"time"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/provider"
)

// loadAge is how long a load is remembered. A host with an unknown load counts as empty, so it is asked about soon.
const loadAge = time.Minute

// loads remembers how loaded hosts are, by the answers of Placement, so that the hosts of a planned server can be
// ordered before Placement is asked. It is safe for concurrent use.
type loads struct {
	mu     sync.Mutex
	byRoot map[provider.ID]hostLoad
}

type hostLoad struct {
	share float64
	at    time.Time
}

// note remembers the loads in an answer.
func (l *loads) note(got placement.Candidates, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byRoot == nil {
		l.byRoot = map[provider.ID]hostLoad{}
	}
	for id, s := range got.Summaries {
		if s.Parent == "" {
			l.byRoot[id] = hostLoad{load(s), now}
		}
	}
}

// of returns the last known load of a host, from 0 to 1; 0 if it is not known.
func (l *loads) of(root provider.ID, now time.Time) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.byRoot[root]
	if now.Sub(known.at) > loadAge {
		return 0
	}
	return known.share
}

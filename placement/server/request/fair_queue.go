package request

import (
	"context"
	"sync"
	"time"

	"github.com/openberth/berth/fault"
)

// fairQueue gives turns to searches that take long. The next turn is for the project that has had the least time, so
// the searches of one project cannot delay those of another by more than a turn each.
type fairQueue struct {
	mu      sync.Mutex
	free    int                      // turns that are not taken
	most    int                      // waiting searches of one project, beyond which a new one is refused
	waiting []*waitingTurn           // in the order of arrival
	spent   map[string]time.Duration // by project that waits or has a turn
	active  map[string]int           // by project: how many searches wait or have a turn
}

type waitingTurn struct {
	project string
	granted chan struct{}
}

func newFairQueue(turns, most int) *fairQueue {
	return &fairQueue{free: turns, most: most, spent: map[string]time.Duration{}, active: map[string]int{}}
}

// begin waits for the first turn of a search. It returns fault.Unavailable if ctx ends before, or if too many searches
// of the project wait.
func (q *fairQueue) begin(ctx context.Context, project string) error {
	q.mu.Lock()
	waits := 0
	for _, w := range q.waiting {
		if w.project == project {
			waits++
		}
	}
	if waits >= q.most {
		q.mu.Unlock()
		return fault.New(fault.Unavailable, "The search for candidates was stopped: %d other "+
			"searches of project %s that take long are waiting. Try again later.", waits, project)
	}
	return q.wait(ctx, project)
}

// resume waits for the next turn of a search that has had one. It returns fault.Unavailable if ctx ends before. Such a
// search is never refused: what it has found would be lost, or, if a part of it is sent, the answer.
func (q *fairQueue) resume(ctx context.Context, project string) error {
	q.mu.Lock()
	return q.wait(ctx, project)
}

// wait unlocks q.mu and waits for a turn.
func (q *fairQueue) wait(ctx context.Context, project string) error {
	if _, known := q.spent[project]; !known {
		q.spent[project] = q.least()
	}
	q.active[project]++
	if q.free > 0 {
		q.free--
		q.mu.Unlock()
		return nil
	}
	w := &waitingTurn{project, make(chan struct{})}
	q.waiting = append(q.waiting, w)
	q.mu.Unlock()
	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-w.granted: // at the same moment
		q.pass()
	default:
		q.remove(w)
	}
	q.leave(project)
	return fault.New(fault.Unavailable, "the request ended while it waited for its turn: %w",
		ctx.Err())
}

// least returns the least time that an active project has had: a new project begins with it.
func (q *fairQueue) least() (least time.Duration) {
	first := true
	for _, spent := range q.spent {
		if first || spent < least {
			least, first = spent, false
		}
	}
	return least
}

// release ends a turn that has taken so long.
func (q *fairQueue) release(project string, took time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.spent[project] += took
	q.leave(project)
	q.pass()
}

// pass gives a turn that has ended to a waiting search, if there is one.
func (q *fairQueue) pass() {
	var next *waitingTurn
	for _, w := range q.waiting {
		if next == nil || q.spent[w.project] < q.spent[next.project] {
			next = w
		}
	}
	if next == nil {
		q.free++
		return
	}
	q.remove(next)
	close(next.granted)
}

func (q *fairQueue) remove(w *waitingTurn) {
	for i, other := range q.waiting {
		if other == w {
			q.waiting = append(q.waiting[:i], q.waiting[i+1:]...)
			return
		}
	}
}

func (q *fairQueue) leave(project string) {
	if q.active[project]--; q.active[project] == 0 {
		delete(q.active, project)
		delete(q.spent, project)
	}
}

// contested reports whether a search waits for a turn.
func (q *fairQueue) contested() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting) > 0
}

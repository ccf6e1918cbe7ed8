// Package eventstream keeps the changes of a service in order, for clients that watch: GET /berth/v1/events.
//
// A Log holds the present state of all objects and the last changes of them. A client that applies all changes from the
// beginning has the state. A client that was away continues after the last change that it has (its cursor) while the
// Log has the following one; otherwise it gets the whole state again. A Log is in memory: its cursors have the id of
// the Log, so that a cursor of another process, or of one before a restart, is never taken for its own.
//
//	Source.Changes ─▶ Log.Apply ─▶ changes, numbered ─▶ Reader.Next ─▶ one client, at its own speed
//
// Nothing waits for a client. A service has one Feed: the Follower keeps its Log equal to the database while there are
// clients, and Feed.Serve answers the requests. The sources are in the services.
package eventstream

import (
	"cmp"
	"context"
	"crypto/rand"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Key identifies an object.
type Key struct {
	Kind string // such as provider
	ID   string // unique in its kind
}

// Object is the state of an object, with what clients filter by. It must not be changed after Apply.
type Object struct {
	Data    any // its JSON document
	Own     any // the document for callers of its project, without what only administrators see; nil: Data
	Host    string
	Project string
	Classes []string // of resources
}

// Change is a change of one object.
type Change struct {
	Number int64
	At     time.Time
	Key    Key
	Before *Object // nil: it is new
	After  *Object // nil: it was deleted
}

// maxStates is the number of clients for which the whole state is copied at one time.
const maxStates = 2

// Log is the changes of a service. It is safe for concurrent use.
type Log struct {
	id   string
	keep int
	now  func() time.Time

	states chan struct{} // one for each caller of State that copies and sorts

	mu    sync.Mutex
	state map[Key]*Object
	ring  []Change      // the last changes; ring[len-1].Number == last
	last  int64         // the number of the newest change
	more  chan struct{} // closed at the next change
}

// New returns a Log without objects that keeps a number of changes.
func New(keep int) *Log {
	return &Log{id: rand.Text()[:12], keep: keep, now: time.Now, states: make(chan struct{}, maxStates),
		state: map[Key]*Object{}, more: make(chan struct{})}
}

// Apply changes objects; nil deletes one. An object that is as before is skipped.
func (l *Log) Apply(objects map[Key]*Object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.last
	keys := make([]Key, 0, len(objects))
	for key := range objects {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b Key) int { return strings.Compare(a.Kind+" "+a.ID, b.Kind+" "+b.ID) })
	for _, key := range keys {
		was, is := l.state[key], objects[key]
		if was == nil && is == nil || was != nil && is != nil && reflect.DeepEqual(*was, *is) {
			continue
		}
		if is == nil {
			delete(l.state, key)
		} else {
			l.state[key] = is
		}
		l.last++
		l.ring = append(l.ring, Change{Number: l.last, At: l.now(), Key: key, Before: was, After: is})
	}
	if l.last == before {
		return
	}
	if len(l.ring) > 2*l.keep { // seldom, so that a change costs little
		l.ring = slices.Clone(l.ring[len(l.ring)-l.keep:])
	}
	close(l.more)
	l.more = make(chan struct{})
}

// Cursor returns the cursor after a change.
func (l *Log) Cursor(number int64) string { return l.id + "-" + strconv.FormatInt(number, 10) }

// Reader reads a Log for one client. It is for one goroutine.
type Reader struct {
	log  *Log
	next int64 // the number of the next change
}

// Read returns a Reader after a cursor. It returns false if the Log does not have the changes that follow it, or never
// had it. The empty cursor is that of the newest change.
func (l *Log) Read(cursor string) (*Reader, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if cursor == "" {
		return &Reader{log: l, next: l.last + 1}, true
	}
	id, number, _ := strings.Cut(cursor, "-")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || id != l.id || n < 0 || n > l.last || !l.has(n+1) {
		return nil, false
	}
	return &Reader{log: l, next: n + 1}, true
}

// has reports whether a change is kept, or is the next one. The caller holds mu.
func (l *Log) has(number int64) bool { return number > l.last-int64(len(l.ring)) && number <= l.last+1 }

// State returns the objects that a filter selects, and a Reader of the changes after them. At most maxStates callers do
// this at one time; others wait. It returns the error of ctx if that takes longer.
func (l *Log) State(ctx context.Context, f Filter) (objects []Change, r *Reader, err error) {
	select {
	case l.states <- struct{}{}:
		defer func() { <-l.states }()
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	objects, r = l.selected(f)
	slices.SortFunc(objects, func(a, b Change) int {
		return cmp.Or(strings.Compare(a.Key.Kind, b.Key.Kind), strings.Compare(a.Key.ID, b.Key.ID))
	})
	return objects, r, nil
}

// selected returns the objects that a filter selects, in any order, and a Reader of the changes after them.
func (l *Log) selected(f Filter) (objects []Change, r *Reader) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, o := range l.state {
		if f.Selects(key, o) {
			objects = append(objects, Change{Number: l.last, Key: key, After: o})
		}
	}
	return objects, &Reader{log: l, next: l.last + 1}
}

// Next returns the next changes, at most a number of them. Without any, it returns a channel that is closed at the next
// one. ok is false if the Log does not have the next change any more: the client was too slow.
func (r *Reader) Next(most int) (changes []Change, more <-chan struct{}, ok bool) {
	l := r.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.has(r.next) {
		return nil, nil, false
	}
	from := len(l.ring) - int(l.last-r.next+1)
	changes = slices.Clone(l.ring[from:min(len(l.ring), from+most)])
	r.next += int64(len(changes))
	return changes, l.more, true
}

// Cursor returns the cursor after the changes that were read.
func (r *Reader) Cursor() string { return r.log.Cursor(r.next - 1) }

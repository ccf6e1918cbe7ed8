package eventstream

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"time"
)

// Filter selects objects. An empty list selects all.
type Filter struct {
	Kinds    []string
	IDs      []string
	Hosts    []string
	Projects []string
	Classes  []string

	Own bool // the client gets the documents for callers of the project
}

// Selects reports whether an object is selected; nil is not.
func (f Filter) Selects(key Key, o *Object) bool {
	has := func(list []string, values ...string) bool {
		return len(list) == 0 || slices.ContainsFunc(values, func(v string) bool { return slices.Contains(list, v) })
	}
	return o != nil && has(f.Kinds, key.Kind) && has(f.IDs, key.ID) && has(f.Hosts, o.Host) &&
		has(f.Projects, o.Project) && has(f.Classes, o.Classes...)
}

// document returns what the client gets of an object.
func (f Filter) document(o *Object) any {
	if f.Own && o.Own != nil {
		return o.Own
	}
	return o.Data
}

// The actions of events.
const (
	Created = "created"
	Changed = "changed"
	Deleted = "deleted"
	State   = "state"  // the object is as shown; part of the whole state
	Reset   = "reset"  // the client forgets what it knows; the whole state follows
	Synced  = "synced" // the whole state has been sent, or all that the client gets
)

// Document is the data of one event.
type Document struct {
	Action string    `json:"action"`
	Kind   string    `json:"kind,omitempty"`
	ID     string    `json:"id,omitempty"`
	Time   time.Time `json:"time,omitzero"`
	Object any       `json:"object,omitempty"` // of a deleted one, the last known state
	Reason string    `json:"reason,omitempty"` // of a reset
}

// contentType is that of a stream.
const contentType = "text/event-stream"

const (
	batch     = 256              // changes that are sent at once
	keepAlive = 15 * time.Second // between comments on a stream without events
)

// Extent is how much of a Log a client gets.
type Extent struct {
	Whole bool // the whole state first
	Once  bool // up to the newest change: the stream ends with Synced
}

// Stream sends the changes that a filter selects as server-sent events, until ctx ends or the client leaves, or has all
// that it gets. cursor is the last event that the client has.
func Stream(ctx context.Context, w http.ResponseWriter, l *Log, cursor string, f Filter, much Extent) error {
	s := &stream{out: w, control: http.NewResponseController(w), filter: f}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	reader, known := l.Read(cursor)
	switch {
	case !known:
		reader = s.state(ctx, l, "the log does not have the events after "+cursor)
	case much.Whole && cursor == "":
		reader = s.state(ctx, l, "")
	default:
		s.cursor(reader) // so that a client that gets no event knows where it began
	}
	idle := time.NewTicker(keepAlive)
	defer idle.Stop()
	for reader != nil {
		changes, more, ok := reader.Next(batch)
		if !ok {
			reader = s.state(ctx, l, "too far behind")
			continue
		}
		for _, c := range changes {
			s.change(l.Cursor(c.Number), c)
		}
		if len(changes) == 0 && much.Once {
			s.event(reader.Cursor(), Document{Action: Synced})
			s.flush()
			return s.err
		}
		if len(changes) == 0 && s.idle {
			s.cursor(reader)
		}
		if s.flush(); s.err != nil {
			return s.err
		}
		if len(changes) > 0 {
			continue
		}
		s.idle = false
		select {
		case <-more:
		case <-idle.C:
			s.idle = true
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// stream writes events. After an error it writes nothing.
type stream struct {
	out     io.Writer
	control *http.ResponseController
	filter  Filter
	idle    bool
	err     error
}

func (s *stream) flush() {
	if s.err == nil {
		s.err = s.control.Flush()
	}
}

// cursor sends a cursor without an event.
func (s *stream) cursor(r *Reader) {
	if s.err == nil {
		_, s.err = io.WriteString(s.out, "id: "+r.Cursor()+"\n\n")
	}
}

// event writes one event. The cursor is empty within the whole state: a client that does not get all of it starts
// again.
func (s *stream) event(cursor string, d Document) {
	data, err := json.Marshal(d)
	if s.err != nil || err != nil {
		return
	}
	if cursor != "" {
		cursor = "id: " + cursor + "\n"
	}
	_, s.err = fmt.Fprintf(s.out, "%sevent: %s\ndata: %s\n\n", cursor, d.Action, data)
}

// state sends the whole state and returns what follows it, or nil if ctx has ended.
func (s *stream) state(ctx context.Context, l *Log, reason string) *Reader {
	objects, reader, err := l.State(ctx, s.filter)
	if err != nil {
		return nil
	}
	s.event("", Document{Action: Reset, Reason: reason})
	for _, c := range objects {
		s.event("", Document{Action: State, Kind: c.Key.Kind, ID: c.Key.ID, Object: s.filter.document(c.After)})
	}
	s.event(reader.Cursor(), Document{Action: Synced})
	return reader
}

// change sends a change. An object that is not selected any more is deleted for the client. A change of what the client
// does not get is not sent.
func (s *stream) change(cursor string, c Change) {
	was, is := s.filter.Selects(c.Key, c.Before), s.filter.Selects(c.Key, c.After)
	d := Document{Kind: c.Key.Kind, ID: c.Key.ID, Time: c.At.UTC()}
	switch {
	case is && was:
		d.Action, d.Object = Changed, s.filter.document(c.After)
		if s.filter.Own && reflect.DeepEqual(s.filter.document(c.Before), d.Object) {
			return
		}
	case is:
		d.Action, d.Object = Created, s.filter.document(c.After)
	case was:
		d.Action, d.Object = Deleted, s.filter.document(c.Before)
	default:
		return
	}
	s.event(cursor, d)
}

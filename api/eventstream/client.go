package eventstream

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
)

// Event is one event of GET /berth/v1/events.
type Event struct {
	Cursor string          `json:"cursor,omitempty"` // the same within the whole state, which a broken stream repeats
	Action string          `json:"action"`
	Kind   string          `json:"kind,omitempty"`
	ID     string          `json:"id,omitempty"` // of the object
	Time   time.Time       `json:"time,omitzero"`
	Object json.RawMessage `json:"object,omitempty"` // of a deleted one, the last known state
	Reason string          `json:"reason,omitempty"` // of a reset
}

// maxEvent is the maximum length of a line of the stream in bytes.
const maxEvent = 4 << 20

// silence is after which time without a line a connection counts as lost: the service sends one each keepAlive.
const silence = 4 * keepAlive

// Read calls each with the events of a service from a cursor on; empty: from now on. query has the filters kind, id,
// host, project, class, state=true for the whole state first, and follow=false for all until now, which ends with
// Synced. It returns the last cursor, and why the stream ended: nil if the service ended it. It returns fault.NotFound
// if the service has no events, as OpenStack's services.
func Read(ctx context.Context, client *rest.Client, query url.Values, cursor string, each func(Event) error) (
	last string, err error) {
	path := "/berth/v1/events"
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	if cursor != "" {
		client = client.WithHeader("Last-Event-ID", cursor)
	}
	ctx, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	timer := time.AfterFunc(silence, func() {
		lose(fault.New(fault.Unavailable, "the service has sent nothing for %s", silence))
	})
	defer timer.Stop()
	response, err := client.Send(ctx, "GET", path, nil)
	if err != nil {
		return cursor, err
	}
	defer response.Body.Close()
	switch kind, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";"); {
	case response.StatusCode >= http.StatusBadRequest:
		return cursor, rest.AnswerFault(http.MethodGet, path, response)
	case kind != contentType:
		return cursor, fault.New(fault.NotFound, "the service has no events: it is not one of Berth's")
	}
	last, err = read(&beat{response.Body, timer}, cursor, each)
	if cause := context.Cause(ctx); err != nil && fault.Is(cause, fault.Unavailable) {
		err = cause
	}
	return last, err
}

// beat resets a timer whenever something arrives.
type beat struct {
	io.Reader
	timer *time.Timer
}

// Read implements io.Reader.
func (b *beat) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if n > 0 {
		b.timer.Reset(silence)
	}
	return n, err
}

// read reads the events of a stream.
func read(from io.Reader, cursor string, each func(Event) error) (last string, err error) {
	in := bufio.NewScanner(from)
	in.Buffer(nil, maxEvent)
	next, data := cursor, ""
	for in.Scan() {
		switch field, value, _ := strings.Cut(in.Text(), ": "); field {
		case "id":
			next = value
		case "data":
			data = value
		case "":
			if in.Text() != "" {
				continue // a comment
			}
			if cursor = next; data == "" {
				continue
			}
			e := Event{Cursor: cursor}
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				return cursor, fault.New(fault.Internal, "an event does not match its API: %w", err)
			}
			data = ""
			if err := each(e); err != nil {
				return cursor, err
			}
		}
	}
	if err := in.Err(); err != nil {
		return cursor, fault.New(fault.Unavailable, "the stream of events broke: %w", err)
	}
	return cursor, nil
}

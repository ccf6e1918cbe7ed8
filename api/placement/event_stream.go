package placement

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
)

// The actions of events.
const (
	EventCreated = "created"
	EventChanged = "changed"
	EventDeleted = "deleted"
	EventState   = "state"  // the object is as shown; part of the whole state
	EventReset   = "reset"  // the client forgets what it knows; the whole state follows
	EventSynced  = "synced" // the whole state has been sent
)

// Event is one event of GET /berth/v1/events.
type Event struct {
	Cursor string          `json:"cursor,omitempty"` // the same within the whole state, which a broken stream repeats
	Action string          `json:"action"`
	Kind   string          `json:"kind,omitempty"` // provider, inventory or allocation
	ID     string          `json:"id,omitempty"`   // of the object
	Time   time.Time       `json:"time,omitzero"`
	Object json.RawMessage `json:"object,omitempty"` // of a deleted one, the last known state
	Reason string          `json:"reason,omitempty"` // of a reset
}

// maxEvent is the maximum length of a line of the stream in bytes.
const maxEvent = 4 << 20

// Events calls each with the events of Placement from a cursor on; empty: from now on. query has the filters kind,
// host, project, class, and state=true for the whole state first. It returns the last cursor, and why the stream ended:
// nil if the service ended it.
func (c *Client) Events(ctx context.Context, query url.Values, cursor string, each func(Event) error) (
	last string, err error) {
	path := "/berth/v1/events"
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	client := c.REST
	if cursor != "" {
		client = client.WithHeader("Last-Event-ID", cursor)
	}
	response, err := client.Send(ctx, "GET", path, nil)
	if err != nil {
		return cursor, err
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusBadRequest {
		return cursor, rest.AnswerFault(http.MethodGet, path, response)
	}
	in := bufio.NewScanner(response.Body)
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

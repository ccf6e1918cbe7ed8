package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/openberth/berth/api/eventstream"
	"github.com/openberth/berth/console/view"
	"github.com/openberth/berth/fault"
)

// eventFilters are the filters of events, as Placement's API names them.
var eventFilters = []string{"kind", "host", "project", "class"}

// eventsContent is the content of the page of events.
type eventsContent struct {
	Filter map[string]string
	Kinds  []string
	Stream string // address of the stream
}

// eventQuery returns the filters in the address of a page.
func eventQuery(q url.Values) url.Values {
	out := url.Values{}
	for _, name := range eventFilters {
		if value := strings.TrimSpace(q.Get(name)); value != "" {
			out.Set(name, value)
		}
	}
	return out
}

// events shows the page of events. Its script adds them as they come.
func (c *Console) events(w http.ResponseWriter, r *http.Request, one *session) error {
	q := eventQuery(r.URL.Query())
	content := eventsContent{Filter: map[string]string{}, Kinds: []string{"", "provider", "inventory", "allocation"},
		Stream: "/events/stream?" + q.Encode()}
	for name := range q {
		content.Filter[name] = q.Get(name)
	}
	p := one.page("Events", "events", nil)
	p.Content = content
	c.render(w, http.StatusOK, "events", p)
	return nil
}

// beatTime is the time after which a stream without events has a comment, so that a client that is gone is noticed.
const beatTime = 15 * time.Second

// openStream takes a place for a stream of this session. It returns fault.Unavailable if there is none.
func (one *session) openStream() (release func(), err error) {
	select {
	case one.streams <- struct{}{}:
		return func() { <-one.streams }, nil
	default:
		return nil, fault.New(fault.Unavailable, "%d pages of this session are live already; close one", maxStreams)
	}
}

// eventStream sends the events of Placement that the user may see as server-sent events, until the client leaves or
// Placement ends the stream. A client that connects again continues after the last event.
func (c *Console) eventStream(w http.ResponseWriter, r *http.Request, one *session) error {
	release, err := one.openStream()
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(one.ctx, cancel)()
	s := stream{w: w, control: http.NewResponseController(w)}
	w.Header().Set("Content-Type", "text/event-stream")
	s.write("retry: 3000\n\n")
	client := untimed(one.clients.Placement.REST)
	events, ended := make(chan eventstream.Event), make(chan error, 1)
	go func() {
		_, err := eventstream.Read(ctx, client, eventQuery(r.URL.Query()), r.Header.Get("Last-Event-ID"),
			func(e eventstream.Event) error {
				select {
				case events <- e:
					return nil
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			})
		ended <- err
	}()
	if _, _, err := one.cloud(r); refused(err) { // names for the first events, which wait meanwhile
		s.failed(err)
		return nil
	}
	beat := time.NewTicker(beatTime)
	defer beat.Stop()
	for s.err == nil {
		select {
		case e := <-events:
			s.event(one.read.last(one.ctx, one.clients), e)
		case <-beat.C:
			s.write(": the stream is open\n\n")
		case err := <-ended:
			if err != nil && !fault.Is(err, fault.Unavailable) {
				s.failed(err)
			}
			return nil
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// stream writes server-sent events. After an error it writes nothing.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	err     error
}

func (s *stream) write(text string) {
	if s.err == nil {
		if _, s.err = fmt.Fprint(s.w, text); s.err == nil {
			s.err = s.control.Flush()
		}
	}
}

// event sends the row of an event.
func (s *stream) event(cloud *view.Cloud, e eventstream.Event) {
	if e.Action == eventstream.State || e.Action == eventstream.Synced {
		return // the whole state follows a reset; the page shows changes only
	}
	var object view.EventObject
	if len(e.Object) > 0 && json.Unmarshal(e.Object, &object) != nil {
		object = view.EventObject{Name: e.ID} // an object of another form is shown by its id
	}
	row := cloud.Event(e, object)
	if row.Host != "" {
		row.Link = hostPath(row.Host)
	}
	data, err := json.Marshal(row)
	if s.err = err; err == nil {
		id := ""
		if e.Cursor != "" {
			id = "id: " + e.Cursor + "\n"
		}
		s.write(id + "data: " + string(data) + "\n\n")
	}
}

// failed sends why the stream cannot continue: the client does not connect again.
func (s *stream) failed(err error) {
	text, _ := json.Marshal(fault.TextOf(err)) // a text is always encoded
	s.write("event: failed\ndata: " + string(text) + "\n\n")
}

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/openberth/berth/api/eventstream"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/fault"
)

// WatchCmd prints changes as they happen.
type WatchCmd struct {
	Kind    []string `help:"Only of these kinds: server, host, device, port, network, provider, inventory, allocation." placeholder:"KIND"`
	ID      []string `name:"id" help:"Only of objects with these ids." placeholder:"ID"`
	Host    []string `help:"Only of hosts with these names." placeholder:"HOST"`
	Project []string `help:"Only of projects with these ids." placeholder:"ID"`
	Class   []string `help:"Only of these resource classes." placeholder:"CLASS"`
	State   bool     `help:"Print the present state first."`
	After   []string `help:"Continue after this cursor, which -o json prints with each event; one for each service." placeholder:"SERVICE:CURSOR"`
}

// watchPause is the time between attempts to connect again.
const watchPause = time.Second

// watchedService is a service with events.
type watchedService struct {
	name   string
	kinds  []string
	client *rest.Client
	beside string // the service of OpenStack that has no events
	class  bool   // its objects have resource classes
	after  string // the cursor with which it begins
}

// watchedServices returns the services of the cloud that may have events.
func watchedServices(g *Globals) []watchedService {
	return []watchedService{
		{name: "placement", kinds: []string{"provider", "inventory", "allocation"}, client: untimed(g.placement().REST),
			beside: "OpenStack's Placement", class: true},
		{name: "compute", kinds: []string{"server", "host", "device"}, client: untimed(g.compute().REST), beside: "Nova",
			class: true},
		{name: "network", kinds: []string{"port", "network"}, client: untimed(g.networks().REST), beside: "Neutron"},
	}
}

// untimed returns a client whose requests may take any time.
func untimed(client *rest.Client) *rest.Client {
	c, http := *client, *client.HTTP
	http.Timeout = 0
	c.HTTP = &http
	return &c
}

// Run prints the events of all services until the user interrupts the command. It connects to each service again, and
// continues after the last event of that service.
func (c *WatchCmd) Run(g *Globals) error {
	services, err := c.selected(watchedServices(g))
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(g.untilInterrupted())
	defer stop()
	w := &eventWatch{WatchCmd: c, g: g, alone: len(services) == 1, every: pollEvery}
	ended := make([]error, len(services))
	var watching sync.WaitGroup
	for i, s := range services {
		watching.Go(func() {
			ended[i] = w.follow(ctx, s)
			if ended[i] != nil && !absent(ended[i]) {
				stop() // the query is wrong, or the output cannot be written
			}
		})
	}
	watching.Wait()
	for _, err := range ended {
		if err != nil && !absent(err) {
			return err
		}
	}
	if slices.Contains(ended, nil) {
		return nil
	}
	return errors.Join(ended...)
}

// selected returns the services that can have events of the command, with their cursors.
func (c *WatchCmd) selected(all []watchedService) (list []watchedService, err error) {
	var kinds, names []string
	for i, s := range all {
		kinds, names = append(kinds, s.kinds...), append(names, s.name)
		for _, after := range c.After {
			if cursor, ok := strings.CutPrefix(after, s.name+":"); ok {
				all[i].after = cursor
			}
		}
	}
	for _, after := range c.After {
		if name, cursor, _ := strings.Cut(after, ":"); cursor == "" || !slices.Contains(names, name) {
			return nil, fault.New(fault.Invalid, "--after %s: it is not SERVICE:CURSOR with one of the services %s", after,
				strings.Join(names, ", "))
		}
	}
	for _, kind := range c.Kind {
		if !slices.Contains(kinds, kind) {
			return nil, fault.New(fault.Invalid, "--kind %s: it is not one of %s", kind, strings.Join(kinds, ", "))
		}
	}
	for _, s := range all {
		if len(c.kindsOf(s)) > 0 && (s.class || len(c.Class) == 0) {
			list = append(list, s)
		}
	}
	if len(list) == 0 {
		return nil, fault.New(fault.Invalid, "--kind %s: these objects have no resource class; leave out --class",
			strings.Join(c.Kind, ","))
	}
	return list, nil
}

// kindsOf returns the kinds of a service that are selected.
func (c *WatchCmd) kindsOf(s watchedService) (kinds []string) {
	for _, kind := range s.kinds {
		if len(c.Kind) == 0 || slices.Contains(c.Kind, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// query returns the query of a service.
func (c *WatchCmd) query(s watchedService) url.Values {
	query := url.Values{}
	for name, list := range map[string][]string{"id": c.ID, "host": c.Host, "project": c.Project, "class": c.Class} {
		if len(list) > 0 {
			query[name] = list
		}
	}
	if len(c.Kind) > 0 {
		query["kind"] = c.kindsOf(s)
	}
	if c.State {
		query.Set("state", "true")
	}
	return query
}

// absentError is why a service has no events for the caller. The others are watched without it.
type absentError struct{ error }

// Unwrap is for package errors.
func (a absentError) Unwrap() error { return a.error }

func absent(err error) bool {
	_, is := errors.AsType[absentError](err)
	return is
}

// eventWatch is one run of the command.
type eventWatch struct {
	*WatchCmd
	g     *Globals
	alone bool          // there is one service
	every time.Duration // between two reads of a service without events
	mu    sync.Mutex    // for the output
}

// follow prints the events of a service until ctx ends: then it returns nil. It returns an absentError, and prints it
// unless the service is the only one, if the service has no events.
func (w *eventWatch) follow(ctx context.Context, s watchedService) error {
	query, cursor, failing, connected := w.query(s), s.after, false, false
	for {
		next, err := eventstream.Read(ctx, s.client, query, cursor, func(e eventstream.Event) error {
			failing = false
			return w.print(s.name, e)
		})
		if connected = connected || next != cursor || err == nil; ctx.Err() != nil {
			return nil
		}
		cursor = next
		switch {
		case err == nil:
		case !connected && fault.Is(err, fault.NotFound) && w.poller(s) != nil:
			w.explainPolling(s)
			return w.poll(ctx, s, w.poller(s))
		case !connected && fault.Is(err, fault.NotFound):
			return w.leaveOut(s, fault.New(fault.NotFound, "the %s service has no events: it is %s, or an older Berth",
				s.name, s.beside))
		case !connected && (fault.Is(err, fault.Forbidden) || fault.Is(err, fault.Unavailable)):
			return w.leaveOut(s, err) // nothing can be missed yet
		case !fault.Is(err, fault.Unavailable): // a proxy answers 502 to 504 while the service starts
			return err
		case !failing:
			failing = true
			w.message("%s: connection lost, connecting again: %s", s.name, fault.TextOf(err))
		}
		if backoff.Sleep(ctx, watchPause) != nil {
			return nil
		}
	}
}

// leaveOut returns the absentError of a service.
func (w *eventWatch) leaveOut(s watchedService, err error) error {
	if !w.alone {
		w.message("no events of %s: %s", strings.Join(w.kindsOf(s), ", "), fault.TextOf(err))
	}
	return absentError{err}
}

// poller returns what reads the objects of a service of OpenStack; nil if it has none that are selected.
func (w *eventWatch) poller(s watchedService) looker {
	kinds := w.kindsOf(s)
	switch {
	case s.name == "compute" && slices.Contains(kinds, "server") && len(w.Class) == 0:
		p := &serverPoll{client: w.g.compute()}
		return p.read
	case s.name == "network" && slices.Contains(kinds, "port"):
		return func(ctx context.Context, _ objects) (objects, error) { return readPorts(ctx, w.g.networks()) }
	}
	return nil
}

// poll prints the differences between two reads of a service until ctx ends: then it returns nil. After a failed read
// it compares with the last one that succeeded. It returns an absentError if the service cannot be read at first.
func (w *eventWatch) poll(ctx context.Context, s watchedService, look looker) error {
	var known objects
	failing := false
	for {
		began := time.Now()
		now, err := look(ctx, known)
		took := time.Since(began)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil && known == nil:
			err = w.printFirst(s, now)
			known = now
		case err == nil:
			err = w.printAll(s, changes(w.selectedOf(known), w.selectedOf(now)))
			known, failing = now, false
		case known == nil && (fault.Is(err, fault.Forbidden) || fault.Is(err, fault.Unavailable)):
			return w.leaveOut(s, err)
		case fault.Is(err, fault.Unavailable) || fault.Is(err, fault.Internal):
			if err = nil; !failing {
				w.message("%s: cannot be read, trying again", s.name)
			}
			failing = true
		default:
		}
		if err != nil {
			return err
		}
		if backoff.Sleep(ctx, max(w.every, 9*took)) != nil {
			return nil
		}
	}
}

// printFirst prints the whole state, if it is requested or the command was to continue after a cursor.
func (w *eventWatch) printFirst(s watchedService, now objects) error {
	var events []eventstream.Event
	if s.after != "" {
		events = append(events, eventstream.Event{Action: eventstream.Reset, Reason: s.beside + " has no cursors"})
	}
	if s.after == "" && !w.State {
		return nil
	}
	for _, e := range changes(nil, w.selectedOf(now)) {
		e.Action, e.Time = eventstream.State, time.Time{}
		events = append(events, e)
	}
	return w.printAll(s, append(events, eventstream.Event{Action: eventstream.Synced}))
}

func (w *eventWatch) printAll(s watchedService, events []eventstream.Event) error {
	for _, e := range events {
		if err := w.print(s.name, e); err != nil {
			return err
		}
	}
	return nil
}

// selectedOf returns the objects that the filters of the command select.
func (w *eventWatch) selectedOf(all objects) objects {
	has := func(list []string, value string) bool { return len(list) == 0 || slices.Contains(list, value) }
	out := maps.Clone(all)
	maps.DeleteFunc(out, func(id string, o polledObject) bool {
		return !has(w.ID, id) || !has(w.Project, o.project) || !has(w.Host, o.host)
	})
	return out
}

// explainPolling prints that a service is polled, and which kinds that leaves out.
func (w *eventWatch) explainPolling(s watchedService) {
	var left []string
	for _, kind := range w.kindsOf(s) {
		if !slices.Contains(polledKinds, kind) {
			left = append(left, kind)
		}
	}
	text := ""
	if len(left) > 0 {
		text = "; there are no events of " + strings.Join(left, ", ")
	}
	w.message("%s has no events: it is read every %s or less often, and states between two reads are not shown%s",
		s.beside, w.every, text)
}

// message prints a line on standard error.
func (w *eventWatch) message(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintf(w.g.stderr(), "berth: "+format+"\n", args...)
}

// print prints an event.
func (w *eventWatch) print(service string, e eventstream.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.g.Output == "json" {
		if e.Cursor != "" {
			e.Cursor = service + ":" + e.Cursor
		}
		return json.NewEncoder(w.g.stdout()).Encode(struct {
			Service string `json:"service"`
			eventstream.Event
		}{service, e})
	}
	at := "        "
	if !e.Time.IsZero() {
		at = e.Time.Local().Format(time.TimeOnly)
	}
	var err error
	switch e.Action {
	case eventstream.Reset:
		if e.Reason != "" {
			_, err = fmt.Fprintf(w.g.stdout(), "%s reset: %s: %s; the whole state follows\n", at, service, e.Reason)
		}
	case eventstream.Synced:
		_, err = fmt.Fprintf(w.g.stdout(), "%s synced     %s\n", at, service)
	default:
		_, err = fmt.Fprintf(w.g.stdout(), "%s %-7s %-10s %s %s\n", at, e.Action, e.Kind, e.ID, e.Object)
	}
	return err
}

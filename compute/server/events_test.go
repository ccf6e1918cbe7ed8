package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/api/eventstream"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/compute/events"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fault"
)

// watchable returns a fixture whose events are followed.
func watchable(t *testing.T) *fixture {
	t.Helper()
	var feed *eventstream.Feed
	h := startWith(t, func(o *Options) {
		agents := o.Conductor.(*fakeConductor).Agents
		feed = NewFeed(o.Store.(events.Store), agents, func(string) []condition.Condition { return nil }, o.Log)
		o.Feed = feed
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); feed.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	return h
}

// watch reads events of a token until done returns true. It returns the error of the stream.
func (h *fixture) watch(token, query, cursor string, done func(eventstream.Event) bool) (last string, err error) {
	h.Helper()
	values, err := url.ParseQuery(query)
	if err != nil {
		h.Fatal(err)
	}
	enough := errors.New("enough")
	client := &rest.Client{Base: h.url, HTTP: &http.Client{}, Headers: map[string]string{"X-Auth-Token": token}}
	last, err = eventstream.Read(h.Context(), client, values, cursor, func(e eventstream.Event) error {
		if done(e) {
			return enough
		}
		return nil
	})
	if errors.Is(err, enough) {
		err = nil
	}
	return last, err
}

// state returns the ids of the whole state of a query, and the cursor after it.
func (h *fixture) state(token, query string) (ids []string, cursor string) {
	h.Helper()
	cursor, err := h.watch(token, strings.TrimPrefix(query+"&state=true", "&"), "", func(e eventstream.Event) bool {
		if e.Action == eventstream.State {
			ids = append(ids, e.ID)
		}
		return e.Action == eventstream.Synced
	})
	if err != nil {
		h.Fatal(err)
	}
	slices.Sort(ids)
	return ids, cursor
}

// TestEventsByCaller shows administrators everything, and users what is of their project without its host.
func TestEventsByCaller(t *testing.T) {
	h := watchable(t)
	for i, project := range []string{"p", "p", "q"} {
		server := lifecycle.Server{ID: fmt.Sprint("s", i), Name: "n", Project: project, State: lifecycle.Active,
			Host: fmt.Sprint("h", i)}
		if err := h.store.Create(t.Context(), server); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.store.PutReport(t.Context(), schedule.Host{Name: "h0", Provider: "r", Seen: time.Now()},
		func(schedule.Host) error { return nil }); err != nil {
		t.Fatal(err)
	}
	_, cursor := h.state("admin", "")
	for query, want := range map[string]string{"admin ": "h0 s0 s1 s2", "admin kind=server": "s0 s1 s2",
		"admin host=h0": "h0 s0", "admin project=q": "s2", "admin id=s1": "s1", "ann:p ": "s0 s1", "ann:p project=p": "s0 s1",
		"ann:x ": "", "ann:p kind=host,device": "", "admin class=VCPU": ""} {
		token, query, _ := strings.Cut(query, " ")
		if ids, _ := h.state(token, query); strings.Join(ids, " ") != want {
			t.Errorf("%s %q: %v, want %s", token, query, ids, want)
		}
	}
	for query, kind := range map[string]fault.Kind{"ann:p host=h0": fault.Forbidden, "ann:p project=q": fault.Forbidden,
		"admin kind=port": fault.Invalid, "admin colour=red": fault.Invalid, "admin state=maybe": fault.Invalid} {
		token, query, _ := strings.Cut(query, " ")
		if _, err := h.watch(token, query, "", nil); !fault.Is(err, kind) {
			t.Errorf("%s %q: %v", token, query, err)
		}
	}
	h.migrateAndRename(cursor)
}

// migrateAndRename moves a server to another host and renames it: the owner gets one event, the administrator two or,
// if both were read at once, one.
func (h *fixture) migrateAndRename(cursor string) {
	h.Helper()
	for _, next := range []func(lifecycle.Server) lifecycle.Server{
		func(s lifecycle.Server) lifecycle.Server { s.Host = "h9"; return s },
		func(s lifecycle.Server) lifecycle.Server { s.Name = "renamed"; return s }} {
		if _, err := h.store.Change(h.Context(), "s0", next); err != nil {
			h.Fatal(err)
		}
		_, err := h.watch("admin", "", cursor, func(e eventstream.Event) bool {
			cursor = e.Cursor
			return e.ID == "s0" && e.Action == eventstream.Changed
		})
		if err != nil {
			h.Fatal(err)
		}
	}
	var got []string
	_, err := h.watch("ann:p", "", strings.Split(cursor, "-")[0]+"-4", func(e eventstream.Event) bool {
		got = append(got, e.Action+" "+e.ID+" "+string(e.Object))
		return true
	})
	if err != nil || len(got) != 1 || !strings.Contains(got[0], `"renamed"`) || strings.Contains(got[0], "h9") {
		h.Errorf("the owner gets %v %v", got, err)
	}
}

// TestEventsPerProject refuses a stream of a project that has too many, and accepts it when one has ended. Other
// projects and administrators are not affected.
func TestEventsPerProject(t *testing.T) {
	h := watchable(t)
	request := func(ctx context.Context, token string) int {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url+"/berth/v1/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Auth-Token", token)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { answer.Body.Close() })
		return answer.StatusCode
	}
	ctx, leave := context.WithCancel(t.Context())
	for i := range 32 {
		if status := request(ctx, "ann:p"); status != http.StatusOK {
			t.Fatalf("stream %d: %d", i, status)
		}
	}
	if status := request(t.Context(), "bob:p"); status != http.StatusTooManyRequests {
		t.Errorf("a further stream of the project: %d", status)
	}
	for _, token := range []string{"ann:q", "admin"} {
		if status := request(t.Context(), token); status != http.StatusOK {
			t.Errorf("%s: %d", token, status)
		}
	}
	leave()
	for status := 0; status != http.StatusOK; {
		if status = request(t.Context(), "bob:p"); status != http.StatusOK && status != http.StatusTooManyRequests {
			t.Fatalf("after the others have left: %d", status)
		}
	}
}

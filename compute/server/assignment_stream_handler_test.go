package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/testenv"
)

// watchHost starts a watch and returns the lines it receives. The channel is closed when the stream ends; err then
// returns why it ended.
func watchHost(ctx context.Context, c host.Client, name string,
	since int64) (received <-chan host.Assignments, err func() error) {
	return watch(ctx, c, host.WatchRequest{Host: name, Since: since})
}

// watch starts a watch with a request.
func watch(ctx context.Context, c host.Client,
	w host.WatchRequest) (received <-chan host.Assignments, err func() error) {
	ch := make(chan host.Assignments, 100)
	var ended error
	go func() {
		defer close(ch)
		ended = c.Watch(ctx, w, func(a host.Assignments) error {
			ch <- a
			return nil
		})
	}()
	return ch, func() error { return ended }
}

// nextLine waits for the next line and fails the test if there is none.
func nextLine(t *testing.T, received <-chan host.Assignments) host.Assignments {
	t.Helper()
	select {
	case a, ok := <-received:
		if !ok {
			t.Fatal("the stream ended")
		}
		return a
	case <-time.After(testenv.Patience):
		t.Fatal("no line was received")
	}
	return host.Assignments{}
}

// TestWatchSendsNothingWithoutLease checks that compute sends no line after its lease has ended, because its data may
// be out of date.
func TestWatchSendsNothingWithoutLease(t *testing.T) {
	h := startWith(t, func(o *Options) {
		o.Lease = func() error { return fault.New(fault.Unavailable, "the lease has ended") }
	})
	received, _ := watchHost(t.Context(), h.hosts, "host1", 0)
	for a := range received {
		t.Errorf("a line was sent: %+v", a)
	}
}

func TestWatchSendsAssignmentsOfHost(t *testing.T) {
	stop := make(chan struct{})
	h := startWith(t, func(o *Options) { o.Heartbeat, o.Stop = time.Hour, stop })
	h.flavor("gpu", map[string]string{"pci_passthrough:alias": "gpu:1"})
	received, ended := watchHost(t.Context(), h.hosts, "host1", 0)
	if a := nextLine(t, received); a.Revision != 0 || a.Servers == nil || len(a.Servers) != 0 {
		t.Fatalf("%+v", a)
	}
	id := h.server(h.admin, "s", "gpu")
	h.assign(id, "host1")
	a := nextLine(t, received)
	if len(a.Servers) != 1 || a.Revision < 1 {
		t.Fatalf("%+v", a)
	}
	s := a.Servers[0]
	if s.ID != id || s.Name != "s" || s.VCPUs != 2 || s.MemoryMB != 512 || s.DiskGB != 3 || len(s.Requests) != 1 {
		t.Fatalf("%+v", s)
	}
	r := s.Requests[0]
	if r.Alias != "gpu" || r.Count != 1 || r.VendorID != "10de" || r.ProductID != "1db4" ||
		r.Class != "CUSTOM_PCI_10DE_1DB4" || r.Policy != "legacy" ||
		len(r.Providers) != 1 || r.Providers[0] != string(deviceID) || r.ID == "" {
		t.Fatalf("%+v", r)
	}
	other := h.server(h.admin, "other", "gpu")
	h.assign(other, "host2") // on another host
	h.apply(id, lifecycle.GuestRunning{Host: "host1",
		Devices: []schedule.Picked{{RequestID: r.ID, Address: "0000:3b:00.0"}}})
	if err := h.admin.DeleteServer(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if gone := nextLine(t, received); gone.Revision <= a.Revision || len(gone.Servers) != 0 {
		t.Fatalf("%+v", gone)
	}
	close(stop)
	if _, more := <-received; more {
		t.Error("a line after the end of the watch")
	}
	if err := ended(); !fault.Is(err, fault.Unavailable) {
		t.Errorf("%v", err)
	}
}

func TestWatchContinuesAtRevision(t *testing.T) {
	h := startWith(t, func(o *Options) { o.Heartbeat = time.Hour })
	h.flavor("small", nil)
	h.assign(h.server(h.admin, "a", "small"), "host1")
	now, err := h.store.Assignments(t.Context(), "host1")
	if err != nil {
		t.Fatal(err)
	}
	for name, since := range map[string]int64{"the start": 0, "an old revision": now.Revision - 1,
		"a revision of another database": now.Revision + 1000} {
		received, _ := watchHost(t.Context(), h.hosts, "host1", since)
		if a := nextLine(t, received); a.Revision != now.Revision || len(a.Servers) != 1 {
			t.Errorf("since %s: %+v", name, a)
		}
	}
	received, _ := watchHost(t.Context(), h.hosts, "host1", now.Revision)
	h.assign(h.server(h.admin, "b", "small"), "host1")
	if a := nextLine(t, received); a.Revision <= now.Revision || len(a.Servers) != 2 {
		t.Errorf("since the present: %+v", a)
	}
	if r := h.ask("GET", "/berth/v1/hosts/host1/assignments?since=x", "", "X-Auth-Token", "admin"); r.status != 400 {
		t.Errorf("%d %s", r.status, r.text)
	}
}

// TestDifferencesYieldTheWholeLines checks that a client that gets differences has the same lines as one that opens a
// new stream, and that a difference has only what has changed.
func TestDifferencesYieldTheWholeLines(t *testing.T) {
	h := startWith(t, func(o *Options) { o.Heartbeat = time.Hour })
	h.flavor("small", nil)
	completed, _ := watchHost(t.Context(), h.hosts, "host1", 0)
	nextLine(t, completed)
	resp, err := h.hosts.REST.Send(t.Context(), "GET", "/berth/v1/hosts/host1/assignments?since=0&changes=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw := json.NewDecoder(resp.Body)
	difference := func() (line host.Assignments) {
		t.Helper()
		if err := raw.Decode(&line); err != nil {
			t.Fatal(err)
		}
		return line
	}
	difference()
	var ids []string
	check := func(what string, changed, left int) {
		t.Helper()
		fresh, _ := watchHost(t.Context(), h.hosts, "host1", 0)
		whole, got := nextLine(t, fresh), nextLine(t, completed)
		if !reflect.DeepEqual(got, whole) {
			t.Errorf("%s: completed\n%+v\nwhole\n%+v", what, got, whole)
		}
		line := difference()
		if line.Base == 0 && len(ids) > 1 || len(line.Servers) != changed || len(line.Left) != left {
			t.Errorf("%s: %+v", what, line)
		}
	}
	for i := range 5 {
		ids = append(ids, h.server(h.admin, fmt.Sprint("s", i), "small"))
		h.assign(ids[i], "host1")
		check("a server more", min(i+1, 2), 0) // it, and the one before, whose record has changed since
		h.apply(ids[i], lifecycle.GuestRunning{Host: "host1"})
	}
	h.apply(ids[2], lifecycle.ActionRequested{Action: lifecycle.Stop})
	check("a server stops", 2, 0)
	h.apply(ids[2], lifecycle.GuestStopped{Host: "host1"})
	h.apply(ids[2], lifecycle.ActionRequested{Action: lifecycle.Start})
	check("a server starts", 1, 0)
	if err := h.admin.DeleteServer(t.Context(), ids[4]); err != nil {
		t.Fatal(err)
	}
	check("a server is deleted", 0, 1)
}

// assignmentStore is a store with only the assignments of one host.
type assignmentStore struct {
	Store
	mu       sync.Mutex
	revision int64
	err      error
	changed  chan struct{}
	stopped  chan struct{}
}

// Assignments returns the present revision.
func (s *assignmentStore) Assignments(context.Context, string) (store.Assignments, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return store.Assignments{Revision: s.revision}, s.err
}

// Position returns the revision and the error that were set.
func (s *assignmentStore) Position(context.Context, string) (store.Position, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return store.Position{Revision: s.revision}, s.err
}

// Available returns nil: no file is lost.
func (s *assignmentStore) Available() error { return nil }

// HostAccount returns no binding.
func (s *assignmentStore) HostAccount(context.Context, string) (none store.HostAccount, err error) {
	return none, nil
}

// Subscribe records when it is stopped.
func (s *assignmentStore) Subscribe(string) (<-chan struct{}, func()) {
	return s.changed, func() { close(s.stopped) }
}

func (s *assignmentStore) set(revision int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision, s.err = revision, err
}

// startHeartbeats returns an assignmentStore and a client of a server with it.
func startHeartbeats() (*assignmentStore, host.Client) {
	st := &assignmentStore{revision: 7, changed: make(chan struct{}, 1), stopped: make(chan struct{})}
	h := New(Options{Store: st, Streams: Streams{Heartbeat: host.Heartbeat}, Options: edge.Options{
		Authenticate: identity.NoAuth2, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}})
	return st, host.Client{REST: &rest.Client{Base: "http://compute", HTTP: rest.InMemory(h),
		Headers: map[string]string{"X-Auth-Token": "admin"}}}
}

func TestWatchSendsHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, c := startHeartbeats()
		ctx, cancel := context.WithCancel(t.Context())
		begun := time.Now()
		received, ended := watchHost(ctx, c, "host1", 7)
		expect := func(revision int64, after time.Duration) {
			t.Helper()
			if a := <-received; a.Revision != revision || time.Since(begun) != after {
				t.Errorf("revision %d after %s, want %d after %s", a.Revision, time.Since(begun), revision, after)
			}
		}
		expect(7, host.Heartbeat)
		expect(7, 2*host.Heartbeat)
		time.Sleep(host.Heartbeat / 2)
		st.changed <- struct{}{} // a change without a new revision
		synctest.Wait()
		st.set(8, nil)
		st.changed <- struct{}{}
		expect(8, 5*host.Heartbeat/2)
		expect(8, 7*host.Heartbeat/2) // the heartbeat follows the last line
		st.set(9, nil)                // by another process, which signals no change
		expect(9, 9*host.Heartbeat/2)
		cancel()
		for range received {
			t.Error("a line after the end of the watch")
		}
		<-st.stopped
		if err := ended(); err == nil {
			t.Error("a watch ended without an error")
		}
	})
}

func TestWatchEndsWithDatabaseError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, c := startHeartbeats()
		received, ended := watchHost(t.Context(), c, "host1", 0)
		if a := <-received; a.Revision != 7 {
			t.Errorf("%+v", a)
		}
		st.set(0, fault.New(fault.Unavailable, "down"))
		for range received {
			t.Error("a line without a database")
		}
		<-st.stopped
		if err := ended(); !fault.Is(err, fault.Unavailable) {
			t.Errorf("%v", err)
		}
	})
}

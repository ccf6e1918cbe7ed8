package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/testenv"
)

// polledCloud is a fake of Nova and Neutron whose answers change.
type polledCloud struct {
	mu      sync.Mutex
	servers []any // the answer of the next lists
	ports   []any
	failing int      // status of all lists; 0: they succeed
	queries []string // changes-since of the lists of servers
}

func (c *polledCloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var answer any
	switch r.URL.Path {
	case "/":
		answer = map[string]any{"versions": []any{map[string]any{"id": "v2.1", "version": "2.96"}}}
	case "/v2.1/servers/detail":
		c.queries = append(c.queries, r.URL.Query().Get("changes-since"))
		answer = map[string]any{"servers": c.servers}
	case "/v2.0/ports":
		answer = map[string]any{"ports": c.ports}
	}
	if answer == nil {
		w.WriteHeader(http.StatusNotFound)
	} else if c.failing != 0 {
		w.WriteHeader(c.failing)
	}
	json.NewEncoder(w).Encode(answer) // the client may be gone
}

// set changes the cloud.
func (c *polledCloud) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// Beside Nova and Neutron servers and ports are polled: each difference is one event, also after a failure, and
// nothing is shown twice.
func TestPolledEvents(t *testing.T) {
	server := func(id, status, updated string) any {
		return map[string]any{"id": id, "name": id, "status": status, "tenant_id": "p", "OS-EXT-SRV-ATTR:host": "cmp1",
			"created": "2026-01-01T00:00:00Z", "updated": updated, "flavor": map[string]any{"original_name": "small"}}
	}
	const early, late = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
	c := &polledCloud{servers: []any{server("one", "ACTIVE", early), server("two", "ACTIVE", early)},
		ports: []any{map[string]any{"id": "port", "status": "DOWN"}}}
	services := httptest.NewServer(c)
	defer services.Close()
	var out, problems testenv.Buffer
	ctx, stop := context.WithCancel(t.Context())
	g := &Globals{ComputeURL: services.URL, NetworkURL: services.URL, PlacementURL: services.URL, Token: "t", Stdout: &out,
		Stderr: &problems, OutputFlags: OutputFlags{Output: "table"}}
	w := &eventWatch{WatchCmd: &WatchCmd{}, g: g, every: 5 * time.Millisecond}
	var watching sync.WaitGroup
	for _, s := range watchedServices(g)[1:] {
		watching.Go(func() {
			if err := w.follow(ctx, s); err != nil {
				t.Error(err)
			}
		})
	}
	until := func(what string, holds func() bool) {
		t.Helper()
		if held, _ := testenv.Wait(holds); !held {
			t.Fatalf("never: %s\n%s%s", what, &out, &problems)
		}
	}
	polled := func(n int) func() bool {
		return func() bool { c.mu.Lock(); defer c.mu.Unlock(); return len(c.queries) >= n }
	}
	until("the second list of servers", polled(2))
	c.set(func() { c.servers = []any{server("two", "SHUTOFF", late), server("three", "BUILD", late)} })
	until("changed and created", func() bool { return strings.Count(out.String(), "\n") == 2 })
	c.set(func() { c.failing = http.StatusServiceUnavailable })
	until("both failures are reported", func() bool { return strings.Count(problems.String(), "trying again") == 2 })
	c.set(func() {
		c.failing, c.ports = 0, []any{map[string]any{"id": "port", "status": "ACTIVE"}}
		c.servers = []any{server("two", "SHUTOFF", late), server("one", "DELETED", late)}
	})
	until("deleted, and the port", func() bool { return strings.Count(out.String(), "\n") == 4 })
	seen := 0
	c.set(func() { seen = len(c.queries) })
	until("three lists without a change", polled(seen+3))
	stop()
	watching.Wait()
	var got []string
	for line := range strings.Lines(out.String()) {
		got = append(got, strings.Join(strings.Fields(line)[1:4], " "))
	}
	slices.Sort(got)
	const want = "changed port port|changed server two|created server three|deleted server one"
	if strings.Join(got, "|") != want {
		t.Errorf("%q\n%s", got, &out)
	}
	if c.queries[0] != "" || c.queries[1] != "2025-12-31T23:59:00Z" ||
		c.queries[len(c.queries)-1] != "2026-01-01T23:59:00Z" {
		t.Errorf("changes-since is %q", c.queries)
	}
	if !strings.Contains(problems.String(), "there are no events of host, device") {
		t.Errorf("%s", &problems)
	}
}

// The filters select, a cursor that Nova does not have is followed by the whole state, and a user who may not list the
// servers of all projects gets the reason.
func TestPolledSelection(t *testing.T) {
	c := &polledCloud{servers: []any{map[string]any{"id": "one", "tenant_id": "p", "created": "2026-01-01T00:00:00Z",
		"updated": "2026-01-01T00:00:00Z"}, map[string]any{"id": "two", "tenant_id": "q", "created": "2026-01-01T00:00:00Z",
		"updated": "2026-01-01T00:00:00Z"}}}
	services := httptest.NewServer(c)
	defer services.Close()
	var out, problems testenv.Buffer
	g := &Globals{ComputeURL: services.URL, NetworkURL: services.URL, PlacementURL: services.URL, Token: "t", Stdout: &out,
		Stderr: &problems, OutputFlags: OutputFlags{Output: "table"}}
	follow := func(cmd WatchCmd, after string, until string) error {
		ctx, stop := context.WithTimeout(t.Context(), testenv.Patience)
		defer stop()
		s := watchedServices(g)[1]
		s.after = after
		ended := make(chan error)
		go func() { ended <- (&eventWatch{WatchCmd: &cmd, g: g, every: time.Millisecond}).follow(ctx, s) }()
		for {
			select {
			case err := <-ended:
				return err
			case <-time.After(time.Millisecond):
				if strings.Contains(out.String(), until) {
					stop()
				}
			}
		}
	}
	if err := follow(WatchCmd{Project: []string{"q"}}, "7K-1", "synced"); err != nil ||
		!strings.Contains(out.String(), "Nova has no cursors; the whole state follows") ||
		strings.Count(out.String(), "state   server") != 1 || !strings.Contains(out.String(), " two ") {
		t.Errorf("%v\n%s", err, &out)
	}
	if err := follow(WatchCmd{Kind: []string{"host"}}, "", "never"); !absent(err) {
		t.Errorf("hosts of Nova: %v", err)
	}
	c.set(func() { c.failing = http.StatusForbidden })
	if err := follow(WatchCmd{}, "", "never"); !absent(err) || !fault.Is(err, fault.Forbidden) {
		t.Error(fmt.Errorf("a user without the right: %w", err))
	}
}

package conductor

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// A host is forgotten only if it is silent or dead and has no servers or allocations. Providers of other services
// below its provider remain, with their ancestors.
func TestHostForget(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 1, "b": 0})
	c.start(t.Context(), c.store, c.client(nil))
	for _, p := range []provider.Provider{
		{ID: "pf-a", Name: "a_0000:3B:00.0", Parent: "root-a", Root: "root-a", Traits: []resource.Trait{managed},
			Inventories: map[resource.Class]resource.Inventory{class: resource.Whole(2)}},
		{ID: "gpu-a", Name: "a_0000:3C:00.0", Parent: "root-a", Root: "root-a", Traits: []resource.Trait{managed}},
		{ID: "agent", Name: "a:NIC Switch agent", Parent: "root-a", Root: "root-a"},
	} {
		c.placement.SetProvider(p)
	}
	forget := func() ([]string, []string, error) { return c.conductor().HostForget(context.Background(), "a") }
	refused := func(what string, words ...string) {
		t.Helper()
		before := len(c.placement.TreeIDs("root-a"))
		_, _, err := forget()
		for _, word := range words {
			if !fault.Is(err, fault.Conflict) || !strings.Contains(fault.TextOf(err), word) {
				t.Errorf("%s: %v, want %q", what, err, word)
			}
		}
		if _, err := c.store.Host(context.Background(), "a"); err != nil || len(c.placement.TreeIDs("root-a")) != before {
			t.Errorf("%s: refused, and yet something is gone (%v)", what, err)
		}
	}
	c.create("s")
	c.waitSettled()
	refused("its agent reports", "may still be alive: its agent has been silent for", "berth host down a")
	if err := c.conductor().HostDown(context.Background(), "a"); err != nil {
		t.Fatal(err)
	}
	refused("a server is placed there", "servers are placed on host a", "(s)")
	c.deleteAll()
	c.allocate("other", resource.Allocation{"pf-a": {class: 2}})
	refused("another consumer has a device", "other has 2 CUSTOM_NIC of a_0000:3B:00.0")
	c.allocate("other", nil)

	removed, kept, err := forget()
	if err != nil || !reflect.DeepEqual(removed, []string{"a_0000:3B:00.0", "a_0000:3C:00.0"}) ||
		!reflect.DeepEqual(kept, []string{"a:NIC Switch agent", "a"}) {
		t.Errorf("removed %v, kept %v: %v", removed, kept, err)
	}
	if _, _, err := forget(); !fault.Is(err, fault.NotFound) {
		t.Errorf("it is not forgotten: %v", err)
	}
	c.reportAt("a", time.Now().Add(-time.Hour)) // it was set up again, and has died since
	if err := c.conductor().HostDown(context.Background(), "a"); err != nil {
		t.Fatal(err)
	}
	c.placement.RemoveProvider("agent")
	if removed, kept, err := forget(); err != nil || !reflect.DeepEqual(removed, []string{"a"}) || len(kept) != 0 ||
		len(c.placement.TreeIDs("root-a")) != 0 {
		t.Errorf("removed %v, kept %v: %v", removed, kept, err)
	}
}

// A host whose agent has reported and is silent is forgotten, also if no operator has declared it dead.
func TestForgetASilentHost(t *testing.T) {
	env := newCloud(t, map[string]int{"a": 0})
	c, at := withClocks(t, env)
	host, err := env.store.Host(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	at.since = time.Second
	if err := c.Agents.Report(t.Context(), host, schedule.Sender{Instance: "agent-a", Start: "start"}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.HostForget(t.Context(), "a"); !fault.Is(err, fault.Conflict) ||
		!strings.Contains(fault.TextOf(err), "counts as alive until") {
		t.Errorf("it has just reported: %v", err)
	}
	at.since += c.Agents.Silence + time.Second
	if _, _, err := c.HostForget(t.Context(), "a"); err != nil {
		t.Errorf("it is silent: %v", err)
	}
}

// A host that was declared dead and has returned is not forgotten.
func TestForgetAHostThatHasReturned(t *testing.T) {
	env := newCloud(t, map[string]int{"a": 0})
	c, at := withClocks(t, env)
	host, err := env.store.Host(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	from := schedule.Sender{Instance: "agent-a", Start: "start"}
	report := func() {
		t.Helper()
		if err := c.Agents.Report(t.Context(), host, from); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(what string) {
		t.Helper()
		_, _, err := c.HostForget(t.Context(), "a")
		if !fault.Is(err, fault.Conflict) || !strings.Contains(fault.TextOf(err),
			"has been declared dead, and its agent has reported since") {
			t.Errorf("%s: %v", what, err)
		}
	}
	report()
	at.since = time.Second
	if err := c.HostDown(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	at.since = time.Minute
	report()
	refused("it has reported since")
	if err := c.HostDown(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	closed := c.Agents.Connected("a") // the agent behind an open stream may be stopped
	defer closed()
	if _, _, err := c.HostForget(t.Context(), "a"); err != nil {
		t.Errorf("dead and silent: %v", err)
	}
}

// What a forgotten host has reported of guests does not stop the servers of these guests any more.
func TestForgottenHostContradictsNoServer(t *testing.T) {
	_, c, at := silentAgents(t, map[string]int{"a": 4, "b": 4})
	s := created(t, c, "s")
	gone := map[string]string{"a": "b", "b": "a"}[s.Host]
	known, err := c.store.Host(t.Context(), gone)
	if err != nil {
		t.Fatal(err)
	}
	known.Present = []schedule.Present{{ID: "s", Server: "s"}} // as after the restore of a backup
	from := schedule.Sender{Instance: known.Instance, Start: known.Start}
	if err := c.Agents.Report(t.Context(), known, from); err != nil {
		t.Fatal(err)
	}
	at.since += c.Silence + time.Second
	reportAgain(t, c, s.Host)
	if err := c.Delete(t.Context(), "s", lifecycle.Caller{}); err != nil {
		t.Fatal(err)
	}
	if err := c.Perform(t.Context(), "s"); !fault.Is(err, fault.Unavailable) {
		t.Fatalf("the guest contradicts nothing, so the test shows nothing: %v", err)
	}
	if _, _, err := c.HostForget(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	if s := perform(t, c, "s"); s.State != lifecycle.Deleted {
		t.Errorf("the server is %s\n%s", s.State, text(s))
	}
}

package conductor

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

// A server whose disk cannot be copied is not moved: its host or all others cannot do it. The request, or the search
// for a host, names the reason, and so does the plan of a drain. Nothing has changed then.
func TestServerWhoseDiskCannotMoveStays(t *testing.T) {
	for host, where := range map[string]string{"a": "cannot leave host a: no address",
		"b": "be copied to it: no address"} {
		t.Run(host, func(t *testing.T) {
			c := newCloud(t, map[string]int{"a": 1, "b": 1})
			c.start(t.Context(), c.store, c.client(nil))
			if err := c.store.DisableHost(t.Context(), "b", "", time.Now()); err != nil {
				t.Fatal(err)
			}
			s := server("s")
			s.Flavor.DiskGB = 1
			if s = c.make(s); s.Host != "a" {
				t.Fatalf("on %s\n%s", s.Host, c.histories())
			}
			if err := c.store.EnableHost(t.Context(), "b"); err != nil {
				t.Fatal(err)
			}
			c.describe(func(h *schedule.Host) {
				if h.Name == host {
					h.NoDiskMoves = "no address"
				}
			})
			request := lifecycle.ActionRequested{ID: "m", Action: lifecycle.Migrate}
			_, err := c.conductor().Act(t.Context(), "s", request)
			if refused := host == "a"; refused != fault.Is(err, fault.Conflict) ||
				refused && !strings.Contains(err.Error(), where) {
				t.Errorf("%v", err)
			}
			c.waitSettled()
			now := c.server()
			if host == "b" && !strings.Contains(c.histories(), where) {
				t.Errorf("no reason:\n%s", c.histories())
			}
			if now.State != lifecycle.Active || now.Host != "a" || now.Move != nil || now.Stopped {
				t.Errorf("%s on %s\n%s", now.Stage(), now.Host, c.histories())
			}
			plan, err := c.conductor().PlanDrain(t.Context(), "a")
			if err != nil || len(plan) != 1 || plan[0].To != "" || !strings.Contains(plan[0].Reason, where) {
				t.Errorf("%+v %v", plan, err)
			}
		})
	}
}

// The hosts that cannot copy a disk are excluded for a resize and a cold migration, and for no other search.
func TestHostsThatCannotCopyDisksAreExcluded(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 1, "b": 1})
	c.start(t.Context(), c.store, c.client(nil))
	c.describe(func(h *schedule.Host) {
		if h.Name == "b" {
			h.NoDiskMoves = "no address"
		}
	})
	read := c.conductor().read()
	hosts, err := c.store.Hosts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		kind lifecycle.Kind
		from string
		disk int
		want string // the hosts that are excluded
	}{
		{lifecycle.Migrating, "a", 1, "b"}, {lifecycle.Resizing, "a", 1, "b"}, {lifecycle.Resizing, "b", 1, "a"},
		{lifecycle.Migrating, "a", 0, ""}, {lifecycle.LiveMigration, "a", 1, ""}, {lifecycle.Evacuating, "b", 1, ""},
		{"", "", 1, ""},
	} {
		s := lifecycle.Server{ID: "s"}
		s.Flavor.DiskGB = test.disk
		if test.kind != "" {
			s.Move = &lifecycle.Move{Kind: test.kind, From: lifecycle.Residence{Host: test.from, Flavor: s.Flavor}}
		}
		input := schedule.Input{Hosts: map[provider.ID]schedule.Host{}, ExcludedHosts: map[string]string{}}
		for _, h := range hosts {
			input.Hosts[h.Provider] = h
		}
		if err := read.excludeWithoutDisk(t.Context(), s, input); err != nil {
			t.Fatal(err)
		}
		got := strings.Join(slices.Sorted(maps.Keys(input.ExcludedHosts)), ",")
		if got != test.want {
			t.Errorf("%+v: excluded are %q: %v", test, got, input.ExcludedHosts)
		}
	}
}

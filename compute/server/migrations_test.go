package server

import (
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
)

// moved creates a server that is being moved from host1, at a time.
func (h *fixture) moved(name string, action lifecycle.Action, by lifecycle.Caller, at time.Time) string {
	h.Helper()
	id := h.running(name)
	if _, err := h.store.Change(h.Context(), id, func(s lifecycle.Server) lifecycle.Server {
		s, _ = lifecycle.Next(s, lifecycle.ActionRequested{ID: "m-" + name, Action: action, By: by,
			Flavor: s.Flavor}, at)
		return s
	}); err != nil {
		h.Fatal(err)
	}
	return id
}

// TestMigrationsByVersion tests the keys and the types of migrations at each version.
func TestMigrationsByVersion(t *testing.T) {
	h := start(t)
	id := h.moved("live", lifecycle.Live, lifecycle.Caller{User: "op", Project: "ops"}, time.Now())
	keys := []string{"created_at", "dest_compute", "dest_host", "dest_node", "id", "instance_uuid",
		"new_instance_type_id", "old_instance_type_id", "source_compute", "source_node", "status", "updated_at"}
	own := []string{"created_at", "dest_compute", "dest_host", "dest_node", "disk_processed_bytes",
		"disk_remaining_bytes", "disk_total_bytes", "id", "memory_processed_bytes", "memory_remaining_bytes",
		"memory_total_bytes", "server_uuid", "source_compute", "source_node", "status", "updated_at"}
	for _, c := range []struct {
		version   string
		more, all []string
	}{
		{"2.1", nil, nil}, {"2.22", nil, nil}, {"2.23", []string{"links", "migration_type"}, nil},
		{"2.59", []string{"links", "migration_type"}, []string{"uuid"}},
		{"2.80", []string{"links", "migration_type"}, []string{"uuid", "user_id", "project_id"}},
	} {
		r := h.at(c.version, "GET", "/v2.1/os-migrations", "")
		want := slices.Sorted(slices.Values(slices.Concat(keys, c.more, c.all)))
		if got := keysOf(r, "migrations/0"); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", c.version, got, want)
		}
		micros := regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}$`)
		for _, key := range []string{"created_at", "updated_at"} {
			if text, _ := r.dig("migrations/0/" + key).(string); !micros.MatchString(text) {
				t.Errorf("%s: %s is %q", c.version, key, text)
			}
		}
		if _, number := r.dig("migrations/0/old_instance_type_id").(float64); !number {
			t.Errorf("%s: %s", c.version, r.text)
		}
		if c.more == nil {
			continue
		}
		want = slices.Sorted(slices.Values(slices.Concat(own, c.all)))
		path := "/v2.1/servers/" + id + "/migrations"
		if got := keysOf(h.at(c.version, "GET", path, ""), "migrations/0"); !slices.Equal(got, want) {
			t.Errorf("%s: list has %q, want %q", c.version, got, want)
		}
		if got := keysOf(h.at(c.version, "GET", path+"/1", ""), "migration"); !slices.Equal(got, want) {
			t.Errorf("%s: show has %q, want %q", c.version, got, want)
		}
	}
}

// TestMigrationFilters tests the pages and the filters of migrations, and which of them a server shows.
func TestMigrationFilters(t *testing.T) {
	h := start(t)
	old := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	first := h.moved("a", lifecycle.Migrate, lifecycle.Caller{User: "op", Project: "ops"}, old)
	h.moved("b", lifecycle.Resize, lifecycle.Caller{User: "ann", Project: "p1"}, old.AddDate(0, 1, 0))
	h.moved("c", lifecycle.Live, lifecycle.Caller{User: "op", Project: "ops"}, old.AddDate(0, 2, 0))
	all := []string{"m-c", "m-b", "m-a"}
	for _, c := range []struct {
		version, query string
		want           []string
	}{
		{"2.59", "", all},
		{"2.59", "limit=1", []string{"m-c"}}, {"2.59", "limit=1&marker=m-c", []string{"m-b"}},
		{"2.59", "marker=m-a", nil}, {"2.59", "limit=0", nil},
		{"2.59", "migration_type=resize", []string{"m-b"}}, {"2.59", "status=error", nil},
		{"2.59", "instance_uuid=" + first, []string{"m-a"}}, {"2.59", "source_compute=host2", nil},
		{"2.59", "source_compute=cmp1&hidden=0", all},
		{"2.59", "changes-since=2026-01-15", []string{"m-c", "m-b"}},
		{"2.66", "changes-since=2026-01-15&changes-before=2026-02-15", []string{"m-b"}},
		{"2.80", "user_id=op", []string{"m-c", "m-a"}}, {"2.80", "project_id=p1", []string{"m-b"}},
	} {
		r := h.at(c.version, "GET", "/v2.1/os-migrations?"+c.query, "")
		list, _ := r.dig("migrations").([]any)
		var got []string
		for _, m := range list {
			id, _ := m.(map[string]any)["uuid"].(string)
			got = append(got, id)
		}
		if r.status != 200 || !slices.Equal(got, c.want) {
			t.Errorf("%s at %s: %q, want %q\n%s", c.query, c.version, got, c.want, r.text)
		}
	}
	h.exchanges("admin", []exchange{
		{"2.59", "GET", "/os-migrations?limit=1", "", 200, `"migrations_links":[`},
		{"2.58", "GET", "/os-migrations?limit=1&marker=x&unknown=1", "", 200, first},
		{"2.59", "GET", "/os-migrations?marker=x", "", 400, "Marker x could not be found"},
		{"2.59", "GET", "/os-migrations?unknown=1", "", 400, "'unknown' was unexpected"},
		{"2.65", "GET", "/os-migrations?changes-before=2026-01-01", "", 400, "changes-before"},
		{"2.66", "GET", "/os-migrations?changes-before=2026-01-01&changes-since=2026-01-02", "", 400, "less than"},
		{"2.79", "GET", "/os-migrations?user_id=op", "", 400, "user_id"},
		{"2.23", "GET", "/servers/" + first + "/migrations", "", 200, `{"migrations":[]}`},
		{"2.23", "GET", "/servers/" + first + "/migrations/1", "", 404, "is not live-migration"},
		{"2.23", "GET", "/servers/" + first + "/migrations/9", "", 404, "In-progress live migration 9 is not found"},
		{"2.22", "GET", "/servers/" + first + "/migrations", "", 404, ""},
	})
}

// TestServicesOfCompute tests that the scheduler and the conductor are services, found by filters, and not changed.
func TestServicesOfCompute(t *testing.T) {
	h := start(t)
	if err := h.hosts.PutReport(t.Context(), report("h1")); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string][]string{"": {"nova-compute", "nova-conductor", "nova-scheduler"},
		"?binary=nova-scheduler": {"nova-scheduler"}, "?binary=nova-compute": {"nova-compute"},
		"?host=h1": {"nova-compute"}, "?host=h2": nil, "?binary=x": nil} {
		r := h.at("2.11", "GET", "/v2.1/os-services"+query, "")
		list, _ := r.dig("services").([]any)
		var got []string
		for _, one := range list {
			d, _ := one.(map[string]any)
			name, _ := d["binary"].(string)
			got = append(got, name)
			if d["disabled_reason"] != nil || len(d) != 9 {
				t.Errorf("%v", d)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	scheduler := h.at("2.53", "GET", "/v2.1/os-services?binary=nova-scheduler", "")
	id, _ := scheduler.dig("services/0/id").(string)
	body := `{"host": "h1", "binary": "nova-conductor", "forced_down": true}`
	h.exchanges("admin", []exchange{
		{"2.53", "PUT", "/os-services/" + id, `{"status": "disabled"}`, 400, "Updating a nova-scheduler service is not"},
		{"2.11", "PUT", "/os-services/force-down", body, 400, "Updating a nova-conductor service is not supported"},
		{"2.11", "PUT", "/os-services/disable", `{"host": "h1", "binary": "nova-scheduler"}`, 400, "not supported"},
	})
}

package server

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// keysOf returns the keys of an object inside an answer, sorted.
func keysOf(r reply, path string) []string {
	object, _ := r.dig(path).(map[string]any)
	return slices.Sorted(maps.Keys(object))
}

// TestAnswersToChangesByVersion tests that PUT and rebuild answer with the base of a server before 2.75, and as GET
// since.
func TestAnswersToChangesByVersion(t *testing.T) {
	h := start(t)
	h.flavor("small", nil)
	id := h.server(h.client("ann:p1"), "s", "small")
	base := []string{"OS-DCF:diskConfig", "accessIPv4", "accessIPv6", "addresses", "created", "flavor", "hostId", "id",
		"image", "links", "metadata", "name", "progress", "status", "tenant_id", "updated", "user_id"}
	if got := keysOf(h.at("2.1", "PUT", "/v2.1/servers/"+id, `{"server": {"name": "t"}}`), "server"); !slices.Equal(got,
		base) {
		t.Errorf("got %q, want %q", got, base)
	}
	for _, version := range []string{"2.75", "2.90", "2.104"} {
		put := keysOf(h.at(version, "PUT", "/v2.1/servers/"+id, `{"server": {"name": "t"}}`), "server")
		get := keysOf(h.at(version, "GET", "/v2.1/servers/"+id, ""), "server")
		if !slices.Equal(put, get) || len(put) < len(base)+5 {
			t.Errorf("%s: PUT has %q, GET has %q", version, put, get)
		}
	}
}

func TestHypervisorsByVersion(t *testing.T) {
	h := start(t)
	if err := h.hosts.PutReport(t.Context(), report("h1")); err != nil {
		t.Fatal(err)
	}
	old := h.at("2.87", "GET", "/v2.1/os-hypervisors/detail", "")
	now := h.at("2.88", "GET", "/v2.1/os-hypervisors/detail", "")
	gone := []string{"cpu_info", "current_workload", "disk_available_least", "free_disk_gb", "free_ram_mb", "local_gb",
		"local_gb_used", "memory_mb", "memory_mb_used", "running_vms", "vcpus", "vcpus_used"}
	want := slices.DeleteFunc(keysOf(old, "hypervisors/0"), func(key string) bool { return slices.Contains(gone, key) })
	want = slices.Sorted(slices.Values(append(want, "uptime")))
	if got := keysOf(now, "hypervisors/0"); !slices.Equal(got, want) || len(keysOf(old,
		"hypervisors/0")) != len(want)+len(gone)-1 {
		t.Errorf("got %q, want %q; before %s", got, want, old.text)
	}
	id, _ := now.dig("hypervisors/0/id").(string)
	for version, status := range map[string]int{"2.87": 400, "2.88": 404} {
		if r := h.at(version, "GET", "/v2.1/os-hypervisors/"+id+"/uptime", ""); r.status != status {
			t.Errorf("%s: uptime answers %d", version, r.status)
		}
	}
	for version, status := range map[string]int{"2.87": 200, "2.88": 404} {
		if r := h.at(version, "GET", "/v2.1/os-hypervisors/statistics", ""); r.status != status {
			t.Errorf("%s: statistics answers %d", version, r.status)
		}
	}
	for version, shown := range map[string]bool{"2.74": false, "2.75": true} {
		r := h.at(version, "GET", "/v2.1/os-hypervisors?with_servers=true", "")
		if slices.Contains(keysOf(r, "hypervisors/0"), "servers") != shown {
			t.Errorf("%s: %s", version, r.text)
		}
	}
}

// TestUptimeOfHypervisor tests the uptime of a host whose agent reports when the machine was started.
func TestUptimeOfHypervisor(t *testing.T) {
	now := time.Date(2026, 3, 4, 13, 6, 7, 0, time.UTC)
	h := startWith(t, func(o *Options) { o.Now = func() time.Time { return now } })
	r := report("h1")
	r.Booted = now.Add(-50*time.Hour - 7*time.Minute)
	if err := h.hosts.PutReport(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	const want = " 13:06:07 up 2 days,  2:07"
	show := h.at("2.88", "GET", "/v2.1/os-hypervisors/"+r.Provider, "")
	if show.dig("hypervisor/uptime") != want {
		t.Error(show.text)
	}
	old := h.at("2.53", "GET", "/v2.1/os-hypervisors/"+r.Provider+"/uptime", "")
	if old.dig("hypervisor/uptime") != want || old.dig("hypervisor/hypervisor_hostname") != "h1" {
		t.Error(old.text)
	}
}

func TestKeyPairsAreImported(t *testing.T) {
	h := start(t)
	for _, c := range []struct {
		version, body string
		status        int
	}{
		{"2.91", `{"name": "k"}`, 201},
		{"2.92", `{"name": "l"}`, 400},
		{"2.91", `{"name": "a@b.c", "public_key": "` + publicKey + `"}`, 400},
		{"2.92", `{"name": "a@b.c", "public_key": "` + publicKey + `"}`, 201},
	} {
		if r := h.at(c.version, "POST", "/v2.1/os-keypairs", `{"keypair": `+c.body+`}`); r.status != c.status {
			t.Errorf("%s %s: %d %s", c.version, c.body, r.status, r.text)
		}
	}
}

func TestForceIsUnknown(t *testing.T) {
	h := start(t)
	h.flavor("small", nil)
	id := h.server(h.client("ann:p1"), "s", "small")
	for version, why := range map[string]string{"2.67": "Berth always claims", "2.68": "Additional properties"} {
		for _, body := range []string{`{"evacuate": {"force": true}}`,
			`{"os-migrateLive": {"host": null, "block_migration": "auto", "force": true}}`} {
			r := h.at(version, "POST", "/v2.1/servers/"+id+"/action", body)
			if r.status != 400 || !strings.Contains(r.text, why) {
				t.Errorf("%s %s: %d %s", version, body, r.status, r.text)
			}
		}
	}
}

// TestUnknownParametersAreRefused tests from which version on a path refuses a parameter of the query.
func TestUnknownParametersAreRefused(t *testing.T) {
	h := start(t)
	h.flavor("small", nil)
	for _, c := range []struct {
		path       string
		since, ask string // the first version that refuses, and the last that accepts
	}{
		{"/v2.1/flavors?colour=1", "2.75", "2.74"}, {"/v2.1/flavors/detail?colour=1", "2.75", "2.74"},
		{"/v2.1/flavors/detail?name=x", "2.75", "2.102"}, {"/v2.1/flavors/small?colour=1", "2.102", "2.101"},
		{"/v2.1/os-migrations?colour=1", "2.59", "2.58"}, {"/v2.1/os-migrations?user_id=1", "2.79", "2.80"},
		{"/v2.1/os-keypairs?colour=1", "2.75", "2.74"}, {"/v2.1/limits?colour=1", "2.75", "2.74"},
		{"/v2.1/os-services?colour=1", "2.75", "2.74"}, {"/v2.1/os-hypervisors?colour=1", "2.53", "2.52"},
		{"/v2.1/os-availability-zone?colour=1", "2.102", "2.101"}, {"/v2.1/servers/detail?colour=1", "2.75", "2.74"},
	} {
		for version, status := range map[string]int{c.since: 400, c.ask: 200} {
			if r := h.at(version, "GET", c.path, ""); r.status != status {
				t.Errorf("%s at %s: %d %s, want %d", c.path, version, r.status, r.text, status)
			}
		}
	}
}

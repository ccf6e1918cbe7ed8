package server

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
)

// The formats of times in the Compute API.
var (
	secondsFormat = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`)
	microsFormat  = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}$`)
	anyTime       = regexp.MustCompile(`^\d{4}-\d\d-\d\d`)
)

// timeFormats are the keys of times and their formats, as the API reference documents them.
var timeFormats = map[string]*regexp.Regexp{
	"created": secondsFormat, "updated": secondsFormat, // servers and their faults
	"OS-SRV-USG:launched_at": microsFormat, "OS-SRV-USG:terminated_at": microsFormat,
	"created_at": microsFormat, "updated_at": microsFormat, // key pairs, services, zones, migrations, actions
	"start_time": microsFormat, "finish_time": microsFormat, // actions and their events
	"start": microsFormat, "stop": microsFormat, "started_at": microsFormat, "ended_at": microsFormat, // usage
}

// timesIn calls found for every text in a JSON value that begins as a time, with its key.
func timesIn(key string, value any, found func(key, text string)) {
	switch value := value.(type) {
	case map[string]any:
		for k, v := range value {
			timesIn(k, v, found)
		}
	case []any:
		for _, v := range value {
			timesIn(key, v, found)
		}
	case string:
		if anyTime.MatchString(value) {
			found(key, value)
		}
	}
}

// TestTimeFormats reads every path of the Compute API with all that has times, at the oldest and at the newest version,
// and checks the format of each time.
func TestTimeFormats(t *testing.T) {
	h := start(t)
	if err := h.hosts.PutReport(t.Context(), report("host1")); err != nil {
		t.Fatal(err)
	}
	id := h.moved("live", lifecycle.Live, lifecycle.Caller{Request: "req-1", User: "op", Project: "p1"}, time.Now())
	failed := h.server(h.client("ann:p1"), "failed", "live")
	h.prepare(failed)
	h.apply(failed, lifecycle.NoValidHost{Reason: "nothing"})
	gone := h.running("gone")
	h.apply(gone, lifecycle.DeleteRequested{Silent: true, By: lifecycle.Caller{Request: "req-2"}})
	if r := h.ask("POST", "/v2.1/os-keypairs", `{"keypair": {"name": "key"}}`, "X-Auth-Token", "admin"); r.status != 200 {
		t.Fatal(r.text)
	}
	actions := h.at("2.1", "GET", "/v2.1/servers/"+id+"/os-instance-actions", "")
	created, _ := actions.dig("instanceActions/1/request_id").(string)
	paths := []string{"/v2.1/os-simple-tenant-usage/p1", "/v2.1/servers/" + id + "/os-instance-actions/" + created,
		"/v2.1/servers/" + failed, "/v2.1/servers/" + gone + "/os-instance-actions",
		"/v2.1/servers/" + gone + "/os-instance-actions/req-2", "/v2.1/servers/detail?all_tenants=1",
		"/v2.1/servers/detail?all_tenants=1&deleted=1", "/v2.1/os-keypairs/key",
		"/v2.1/os-simple-tenant-usage?detailed=1&start=2020-01-01T00:00:00&end=2100-01-01T00:00:00"}
	for path, methods := range newServer(Options{}).guardedRoutes() {
		if _, ok := methods["GET"]; ok && strings.HasPrefix(path, "/v2.1") {
			paths = append(paths, strings.NewReplacer("{id}", id, "{host}", "host1", "{server}", id, "{migration}", "1",
				"{request}", "req-1").Replace(path))
		}
	}
	slices.Sort(paths)
	seen, answered := map[string]bool{}, 0
	for _, path := range paths {
		for _, version := range []string{"2.1", "2.23", "2.58", "2.104"} {
			r := h.at(version, "GET", path, "")
			if r.status != 200 {
				continue
			}
			answered++
			timesIn("", r.body, func(key, text string) {
				format, known := timeFormats[key]
				switch seen[key] = true; {
				case !known:
					t.Errorf("%s at %s: %s is %q; add the key to timeFormats", path, version, key, text)
				case !format.MatchString(text):
					t.Errorf("%s at %s: %s is %q, want the format %s", path, version, key, text, format)
				}
			})
		}
	}
	for key := range timeFormats {
		if !seen[key] {
			t.Errorf("no answer has a time %s", key)
		}
	}
	if answered < 100 {
		t.Errorf("only %d answers", answered)
	}
}

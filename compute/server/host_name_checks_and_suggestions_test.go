package server

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/openberth/berth/api/host"
)

// TestInvalidHostNamesAreRejected sends names that are not valid to every route with a host in its path, and in every
// parameter that names a host. Nothing is stored.
func TestInvalidHostNamesAreRejected(t *testing.T) {
	stop := make(chan struct{})
	close(stop) // a stream that is not rejected ends at once
	h := startWith(t, func(o *Options) { o.Stop = stop })
	h.flavor("small", nil)
	id := h.server(h.client("ann:p1"), "s", "small")
	ask := func(version, method, path, body string) {
		t.Helper()
		r := h.at(version, method, path, body)
		if message, _ := r.dig("badRequest/message").(string); r.status != http.StatusBadRequest || !strings.Contains(message,
			"is not a valid host name") {
			t.Errorf("%s %s %s: %d %s", method, path, body, r.status, r.text)
		}
	}
	routes := 0
	for _, name := range []string{"../../etc", "..", ".", "a/b", `a\b`, "a b", "a\x1b[2Jb",
		strings.Repeat("x", 256)} {
		sent, err := json.Marshal(host.Report{Host: name, Provider: string(rootID)})
		if err != nil {
			t.Fatal(err)
		}
		for path, methods := range newServer(Options{}).guardedRoutes() {
			if !strings.Contains(path, "{host}") {
				continue
			}
			for method := range methods {
				routes++
				at := strings.NewReplacer("{host}", url.PathEscape(name), "{address}", "0000:3b:00.0", "{server}", id, "{id}",
					id).Replace(path)
				ask("2.1", method, strings.ReplaceAll(at, "/.", "/%2e"), string(sent))
			}
		}
		quoted, err := json.Marshal(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(name) < 256 { // a longer text is rejected before it is checked as a host name
			ask("2.56", "POST", "/v2.1/servers/"+id+"/action", `{"migrate": {"host": `+string(quoted)+`}}`)
			ask("2.30", "POST", "/v2.1/servers/"+id+"/action",
				`{"os-migrateLive": {"block_migration": "auto", "host": `+string(quoted)+`}}`)
			ask("2.30", "POST", "/v2.1/servers/"+id+"/action", `{"evacuate": {"host": `+string(quoted)+`}}`)
		}
		ask("2.11", "PUT", "/v2.1/os-services/force-down",
			`{"host": `+string(quoted)+`, "binary": "nova-compute", "forced_down": true}`)
		for _, list := range []string{"servers", "servers/detail", "os-migrations", "os-services"} {
			ask("2.30", "GET", "/v2.1/"+list+"?"+url.Values{"host": {name}}.Encode(), "")
		}
	}
	if routes < 7*9 {
		t.Errorf("only %d requests: the test does not find the routes", routes)
	}
	if hosts, err := h.store.Hosts(t.Context()); err != nil || len(hosts) != 0 {
		t.Errorf("%+v %v", hosts, err)
	}
	if dead, err := h.store.Dead(t.Context()); err != nil || len(dead) != 0 {
		t.Errorf("%v %v", dead, err)
	}
}

// TestValidHostNamesAreAccepted reports hosts with unusual but valid names.
func TestValidHostNamesAreAccepted(t *testing.T) {
	h := start(t)
	for _, name := range []string{"cmp-1.rack_2.example.org", "domain-c26", "größe", "host@rack#7%",
		strings.Repeat("x", 255)} {
		if err := h.hosts.PutReport(t.Context(), report(name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if hosts, err := h.store.Hosts(t.Context()); err != nil || len(hosts) != 5 {
		t.Errorf("%d hosts: %v", len(hosts), err)
	}
}

// TestUnknownHostNameIsAnsweredWithSimilarNames checks that each route with a host name answers an unknown one with 404
// (the destination of a move with 400, as in Nova) and similar names, and stores nothing.
func TestUnknownHostNameIsAnsweredWithSimilarNames(t *testing.T) {
	h, ctx := start(t), t.Context()
	for _, name := range []string{"cmp1", "cmp2", "storage-3"} {
		if err := h.hosts.PutReport(ctx, report(name)); err != nil {
			t.Fatal(err)
		}
	}
	h.flavor("small", nil)
	id := h.server(h.client("ann:p1"), "s", "small")
	for _, c := range []struct {
		version, method, path, body string
		status                      int
	}{
		{"2.1", "PUT", "/berth/v1/hosts/cmp7/down", "", 404},
		{"2.1", "DELETE", "/berth/v1/hosts/cmp7/down", "", 404},
		{"2.1", "DELETE", "/berth/v1/hosts/cmp7", "", 404},
		{"2.1", "POST", "/berth/v1/hosts/cmp7/devices/0000:3b:00.0/clean", "", 404},
		{"2.11", "PUT", "/v2.1/os-services/force-down", `{"host": "cmp7", "binary": "nova-compute", "forced_down": true}`,
			404},
		{"2.11", "PUT", "/v2.1/os-services/force-down", `{"host": "cmp7", "binary": "nova-compute", "forced_down": false}`,
			404},
		{"2.56", "POST", "/v2.1/servers/" + id + "/action", `{"migrate": {"host": "cmp7"}}`, 400},
		{"2.30", "POST", "/v2.1/servers/" + id + "/action", `{"os-migrateLive": {"block_migration": "auto", "host": "cmp7"}}`,
			400},
		{"2.30", "POST", "/v2.1/servers/" + id + "/action", `{"evacuate": {"host": "cmp7"}}`, 400},
	} {
		r := h.at(c.version, c.method, c.path, c.body)
		if r.status != c.status || !strings.Contains(r.text, "did you mean cmp1 or cmp2?") {
			t.Errorf("%s %s %s: %d %s", c.method, c.path, c.body, r.status, r.text)
		}
	}
	if r := h.at("2.1", "PUT", "/berth/v1/hosts/elsewhere/down", ""); r.status != 404 || !strings.Contains(r.text,
		"`berth host list` shows") {
		t.Errorf("without a similar name: %d %s", r.status, r.text)
	}
	if dead, err := h.store.Dead(ctx); err != nil || len(dead) != 0 {
		t.Errorf("stored as dead: %v %v", dead, err)
	}
	if err := h.hosts.PutReport(ctx, report("cmp7")); err != nil {
		t.Fatal(err)
	}
	if hosts, err := h.hosts.Hosts(ctx); err != nil || len(hosts) != 4 || hosts[2].Host != "cmp7" || hosts[2].Dead {
		t.Errorf("a host that joins later counts as dead: %+v %v", hosts, err)
	}
}

package server

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/openberth/berth/resource"
)

// The log has one line with attributes for each request, except for /healthz and /metrics.
func TestLogs(t *testing.T) {
	var log bytes.Buffer
	w := newWorld(t, func(o *Options) { o.Log = slog.New(slog.NewJSONHandler(&log, nil)) })
	const global = "req-11111111-2222-3333-4444-555555555555"
	for _, c := range []struct {
		method, path, version string
		headers               []string
		want                  map[string]any
	}{
		{"GET", "/resource_providers?name=x", "1.39",
			[]string{"X-Auth-Token", "ann:p", "X-Roles", "admin", "X-Openstack-Request-Id", global},
			map[string]any{"route": "/resource_providers", "uri": "/resource_providers?name=x", "status": 200.0, "len": 25.0,
				"microversion": "1.39", "user": "ann", "project": "p", "global_request_id": global}},
		{"GET", "/resource_providers/x/usages", "1.0", []string{"X-Openstack-Request-Id", "req-none"},
			map[string]any{"route": "/resource_providers/{uuid}/usages", "status": 404.0, "microversion": "1.0",
				"user": "admin", "global_request_id": nil}},
		{"DELETE", "/nowhere", "9.9", []string{"X-Auth-Token", ""},
			map[string]any{"route": "", "status": 401.0, "microversion": "-", "user": ""}},
		{"GET", "/?token=secret", "1.1", nil, // a public path: the query may have a token
			map[string]any{"route": "/", "status": 200.0, "uri": "/"}},
		{"GET", "/nowhere?" + strings.Repeat("x", 2000), "1.1", nil,
			map[string]any{"route": "", "status": 404.0, "uri": "/nowhere?" + strings.Repeat("x", 991) + "…"}},
	} {
		log.Reset()
		resp := w.ask(c.version, c.method, c.path, "", c.headers...)
		body, _ := io.ReadAll(resp.Body)
		var line map[string]any
		if err := json.Unmarshal(log.Bytes(), &line); err != nil {
			t.Fatalf("%s %s: %v in %s", c.method, c.path, err, log.String())
		}
		c.want["level"], c.want["msg"], c.want["method"] = "INFO", "request", c.method
		c.want["request_id"], c.want["len"] = resp.Header.Get("X-Openstack-Request-Id"), float64(len(body))
		for key, want := range c.want {
			if line[key] != want {
				t.Errorf("%s %s: %s is %v, want %v", c.method, c.path, key, line[key], want)
			}
		}
		if took, ok := line["took"].(float64); !ok || took < 0 {
			t.Errorf("took %v", line["took"])
		}
	}
	log.Reset()
	scrape(t, w.server)
	healthOf(t, w.server)
	if log.Len() > 0 {
		t.Errorf("/healthz or /metrics is logged: %s", &log)
	}
}

// The debug log contains the steps of a request.
func TestDebugLogs(t *testing.T) {
	var log bytes.Buffer
	w := newWorld(t, func(o *Options) {
		o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	createHost(t, w.client(), "host", 4, 1)
	if _, err := w.client().Candidates(t.Context(),
		resource.Ask{Groups: []resource.Group{{Resources: resource.Amounts{"VCPU": 9}}}}); err != nil {
		t.Fatal(err)
	}
	w.ask("1.39", "GET", "/traits", "", "X-Auth-Token", "bob")
	for _, want := range []string{"request received", "candidates found", "found=0", "candidates explained",
		"policy refused request", "placement:traits:list"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %q in\n%s", want, &log)
		}
	}
}

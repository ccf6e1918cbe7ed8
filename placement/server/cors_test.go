package server

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/openberth/berth/api/cors"
	api "github.com/openberth/berth/api/placement"
)

// CORS headers are those of the original, before authentication and for every status.
func TestCORS(t *testing.T) {
	var log bytes.Buffer
	w := newWorld(t, func(o *Options) {
		o.CORS = cors.Defaults()
		o.CORS.AllowedOrigin = []string{"https://a.example"}
		o.Log = slog.New(slog.NewJSONHandler(&log, nil))
	})
	const origin, site, token = "Origin", "https://a.example", "X-Auth-Token"
	for _, c := range []struct {
		name, method, path string
		headers            []string
		status             int
		allowed            bool
		vary, version      string
	}{
		{"a preflight", "OPTIONS", "/traits", []string{origin, site, token, "", "Access-Control-Request-Method", "GET"}, 200,
			true, "Origin", ""},
		{"a preflight of an unknown path", "OPTIONS", "/nowhere",
			[]string{origin, site, token, "", "Access-Control-Request-Method", "PUT"}, 200, true, "Origin", ""},
		{"a preflight from an unknown origin", "OPTIONS", "/traits",
			[]string{origin, "https://b.example", token, "", "Access-Control-Request-Method", "GET"}, 200, false, "", ""},
		{"OPTIONS alone", "OPTIONS", "/traits", nil, 200, false, "", ""},
		{"an answer", "GET", "/traits", []string{origin, site}, 200, true, "openstack-api-version,Origin", "placement 1.39"},
		{"an answer to an unknown origin", "GET", "/traits", []string{origin, "https://b.example"}, 200, false,
			"openstack-api-version", "placement 1.39"},
		{"no token", "GET", "/traits", []string{origin, site, token, ""}, 401, true, "Origin", ""},
		{"candidates", "GET", "/allocation_candidates?resources=VCPU:1", []string{origin, site}, 200, true,
			"openstack-api-version,Origin", "placement 1.39"},
		{"unknown version", "GET", "/", []string{origin, site, api.VersionHeader, "placement 1.99"}, 406, true, "Origin", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			log.Reset()
			resp := w.ask("1.39", c.method, c.path, "", c.headers...)
			body := bodyOf(t, resp)
			h := resp.Header
			if resp.StatusCode != c.status || (h.Get("Access-Control-Allow-Origin") == site) != c.allowed ||
				h.Get("Vary") != c.vary || h.Get(api.VersionHeader) != c.version {
				t.Errorf("%d %v", resp.StatusCode, h)
			}
			if c.method == "OPTIONS" && (body != "" || h.Get("Allow") != "" || h.Get("Content-Type") != "" ||
				h.Get("Content-Length") != "") {
				t.Errorf("a preflight answer has parts of the replaced answer: %q %v", body, h)
			}
			if id := h.Get("X-Openstack-Request-Id"); !strings.HasPrefix(id, "req-") {
				t.Errorf("request id %q", id)
			}
			var line struct{ Status, Len int }
			if err := json.Unmarshal(log.Bytes(), &line); err != nil || line.Status != c.status || line.Len != len(body) {
				t.Errorf("logged %s", &log)
			}
		})
	}
	plain := newWorld(t)
	if resp := plain.ask("1.39", "OPTIONS", "/traits", "", origin, site); resp.StatusCode != 405 ||
		resp.Header.Get("Vary") != "openstack-api-version" {
		t.Errorf("without [cors]: %d %v", resp.StatusCode, resp.Header)
	}
}

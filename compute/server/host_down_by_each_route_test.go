package server

import (
	"net/http"
	"testing"
)

// TestHostIsDeclaredDownByEachRoute declares a host down and up by each route of the API.
func TestHostIsDeclaredDownByEachRoute(t *testing.T) {
	h := start(t)
	h.putReport("host1")
	service := h.at("2.53", http.MethodGet, "/v2.1/os-services", "").dig("services/0/id").(string)
	for _, c := range []struct {
		version, method, path, body string
		code                        int
		down                        bool
	}{
		{"2.11", http.MethodPut, "/v2.1/os-services/force-down",
			`{"host": "host1", "binary": "nova-compute", "forced_down": true}`, 200, true},
		{"2.11", http.MethodPut, "/v2.1/os-services/force-down",
			`{"host": "host1", "binary": "nova-compute", "forced_down": false}`, 200, false},
		{"2.10", http.MethodPut, "/v2.1/os-services/force-down",
			`{"host": "host1", "binary": "nova-compute", "forced_down": true}`, 404, false},
		{"2.53", http.MethodPut, "/v2.1/os-services/" + service, `{"forced_down": true}`, 200, true},
		{"2.53", http.MethodPut, "/v2.1/os-services/" + imageID, `{"forced_down": false}`, 404, true},
		{"2.53", http.MethodPut, "/v2.1/os-services/" + service, `{"forced_down": false}`, 200, false},
		{"2.1", http.MethodPut, "/berth/v1/hosts/host1/down", "", 204, true},
		{"2.1", http.MethodDelete, "/berth/v1/hosts/host1/down", "", 204, false},
	} {
		r := h.at(c.version, c.method, c.path, c.body)
		if down := h.at("2.11", http.MethodGet, "/v2.1/os-services", "").dig("services/0/forced_down"); r.status != c.code ||
			down != c.down {
			t.Errorf("%s %s %s: %d %s, down %v", c.version, c.path, c.body, r.status, r.text, down)
		}
	}
}

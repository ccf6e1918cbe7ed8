package server

import (
	"strings"
	"testing"
)

// Administrators read what the last periodic audit has found; users do not.
func TestFoundDifferencesAreListed(t *testing.T) {
	h := start(t)
	r := h.ask("GET", "/berth/v1/differences", "", "X-Auth-Token", "admin")
	if found, _ := r.dig("hosts/host1/count").(float64); r.status != 200 || found != 2 ||
		!strings.Contains(r.text, `"valid_seconds":`) {
		t.Errorf("%d %s", r.status, r.text)
	}
	if r := h.ask("GET", "/berth/v1/differences", "", "X-Auth-Token", "user:p"); r.status != 403 {
		t.Errorf("%d %s", r.status, r.text)
	}
}

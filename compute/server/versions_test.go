package server

import (
	"strings"
	"testing"
)

func TestVersionDocuments(t *testing.T) {
	h := start(t)
	for path, at := range map[string]string{"/": "versions/1", "/v2.1": "version", "/v2.1/": "version"} {
		r := h.ask("GET", path, "", "X-Auth-Token", "")
		if r.status != 200 || r.dig(at+"/id") != "v2.1" || r.dig(at+"/status") != "CURRENT" ||
			r.dig(at+"/min_version") != "2.1" ||
			r.dig(at+"/version") != "2.104" || r.dig(at+"/links/0/href") != h.url+"/v2.1/" {
			t.Errorf("%s: %d %s", path, r.status, r.text)
		}
	}
	if r := h.ask("HEAD", "/v2.1/", ""); r.status != 200 || r.text != "" {
		t.Errorf("HEAD: %d %q", r.status, r.text)
	}
}

func TestResponseNamesItsVersion(t *testing.T) {
	h := start(t)
	for asked, want := range map[string]string{"": "2.1", "compute 2.47": "2.47", "compute latest": "2.104",
		"volume 3.50":   "2.1",
		"compute 2.105": "2.1", "compute x": "2.1"} {
		r := h.ask("GET", "/v2.1/servers", "", "OpenStack-API-Version", asked)
		if r.header.Get("OpenStack-API-Version") != "compute "+want || r.header.Get("X-OpenStack-Nova-API-Version") != want ||
			!strings.Contains(r.header.Get("Vary"), "OpenStack-API-Version") || !strings.Contains(r.header.Get("Vary"),
			"X-OpenStack-Nova-API-Version") {
			t.Errorf("asked %q: %v", asked, r.header)
		}
	}
}

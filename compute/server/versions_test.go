package server

import (
	"net/http/httptest"
	"strings"
	"testing"
)

func TestVersionDocuments(t *testing.T) {
	h := start(t)
	for path, at := range map[string]string{"/": "versions/0", "/v2.1": "version", "/v2.1/": "version"} {
		r := h.ask("GET", path, "", "X-Auth-Token", "")
		if r.status != 200 || r.dig(at+"/id") != "v2.1" || r.dig(at+"/status") != "CURRENT" ||
			r.dig(at+"/min_version") != "2.1" ||
			r.dig(at+"/version") != "2.61" || r.dig(at+"/links/0/href") != h.url+"/v2.1/" {
			t.Errorf("%s: %d %s", path, r.status, r.text)
		}
	}
	if r := h.ask("HEAD", "/v2.1/", ""); r.status != 200 || r.text != "" {
		t.Errorf("HEAD: %d %q", r.status, r.text)
	}
}

func TestResponseNamesItsVersion(t *testing.T) {
	h := start(t)
	for asked, want := range map[string]string{"": "2.1", "compute 2.47": "2.47", "compute latest": "2.61",
		"volume 3.50":  "2.1",
		"compute 2.62": "2.1", "compute x": "2.1"} {
		r := h.ask("GET", "/v2.1/servers", "", "OpenStack-API-Version", asked)
		if r.header.Get("OpenStack-API-Version") != "compute "+want || r.header.Get("X-OpenStack-Nova-API-Version") != want ||
			!strings.Contains(r.header.Get("Vary"), "OpenStack-API-Version") || !strings.Contains(r.header.Get("Vary"),
			"X-OpenStack-Nova-API-Version") {
			t.Errorf("asked %q: %v", asked, r.header)
		}
	}
}

func TestPathMayContainProject(t *testing.T) {
	for _, c := range []struct{ path, to, project string }{
		{"/v2.1/p1/servers", "/v2.1/servers", "p1"},
		{"/v2.1/p1/servers/x", "/v2.1/servers/x", "p1"},
		{"/v2.1/p1/flavors/a/os-extra_specs/b", "/v2.1/flavors/a/os-extra_specs/b", "p1"},
		{"/v2.1/p%201/flavors/a%2Fb?c=d", "/v2.1/flavors/a%2Fb?c=d", "p 1"},
		{"/v2.1/servers/servers", "/v2.1/servers/servers", ""},
		{"/v2.1/servers/flavors", "/v2.1/servers/flavors", ""},
		{"/v2.1/flavors/servers", "/v2.1/flavors/servers", ""},
		{"/v2.1/p1/images", "/v2.1/p1/images", ""},
		{"/v2.1/p1", "/v2.1/p1", ""},
		{"/berth/v1/p1/servers", "/berth/v1/p1/servers", ""},
	} {
		r := withoutProject(httptest.NewRequest("GET", c.path, nil))
		project, _ := r.Context().Value(projectKey{}).(string)
		if r.URL.RequestURI() != c.to || project != c.project {
			t.Errorf("%s: %s of project %q", c.path, r.URL.RequestURI(), project)
		}
	}
	h := start(t)
	h.flavor("small", nil)
	r := h.ask("POST", "/v2.1/p1/servers", `{"server": {"name": "a", "flavorRef": "small"}}`)
	id, _ := r.dig("server/id").(string)
	if self := h.url + "/v2.1/p1/servers/" + id; r.status != 202 || r.dig("server/links/0/href") != self ||
		r.header.Get("Location") != self {
		t.Errorf("%d %s %s", r.status, r.text, r.header.Get("Location"))
	}
	r = h.ask("GET", "/v2.1/p1/servers?limit=1", "")
	if want := h.url + "/v2.1/p1/servers?limit=1&marker=" + id; r.dig("servers_links/0/href") != want {
		t.Errorf("%s, want a link to %s", r.text, want)
	}
}

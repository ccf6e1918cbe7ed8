package server

import (
	"net/http/httptest"
	"testing"

	"github.com/openberth/berth/compute/server/request"
)

func TestPathMayContainProject(t *testing.T) {
	resources := request.Resources(newServer(Options{}).guardedRoutes())
	for _, c := range []struct{ path, to, project string }{
		{"/v2.1/p1/servers", "/v2.1/servers", "p1"},
		{"/v2.1/p1/servers/x", "/v2.1/servers/x", "p1"},
		{"/v2.1/p1/flavors/a/os-extra_specs/b", "/v2.1/flavors/a/os-extra_specs/b", "p1"},
		{"/v2.1/p%201/flavors/a%2Fb?c=d", "/v2.1/flavors/a%2Fb?c=d", "p 1"},
		{"/v2.1/p1/os-server-external-events", "/v2.1/os-server-external-events", "p1"},
		{"/v2.1/servers/servers", "/v2.1/servers/servers", ""},
		{"/v2.1/servers/flavors", "/v2.1/servers/flavors", ""},
		{"/v2.1/flavors/servers", "/v2.1/flavors/servers", ""},
		{"/v2.1/p1/images", "/v2.1/images", "p1"},
		{"/v2.1/p1/colours", "/v2.1/p1/colours", ""},
		{"/v2.1/p1", "/v2.1/p1", ""},
		{"/berth/v1/p1/servers", "/berth/v1/p1/servers", ""},
		{"/v2.1/servers/", "/v2.1/servers", ""},
		{"/v2.1/p1/flavors/a%2Fb/?c=d", "/v2.1/flavors/a%2Fb?c=d", "p1"},
		{"/v2.1/", "/v2.1/", ""},
		{"/berth/v1/hosts/", "/berth/v1/hosts/", ""},
	} {
		var got request.Call
		got.R = httptest.NewRequest("GET", c.path, nil)
		got.RemoveSlash()
		got.RemoveProject(resources)
		if got.R.URL.RequestURI() != c.to || got.Project != c.project {
			t.Errorf("%s: %s of project %q", c.path, got.R.URL.RequestURI(), got.Project)
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

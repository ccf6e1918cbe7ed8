package server

import (
	"net/url"
	"strings"
	"testing"

	"github.com/openberth/berth/internal/databases"
)

// A text that not every database can store is answered with 400 and its place, on every database; an emoji never causes
// a status of 500.
func TestTextsOnEveryDatabase(t *testing.T) {
	databases.Each(t, func(t *testing.T, fresh func(testing.TB) string) {
		h := startOn(t, fresh(t), func(*Options) {})
		admin := []string{"X-Auth-Token", "admin", "OpenStack-API-Version", "compute 2.55"}
		flavor := func(name, description string) string {
			return `{"flavor": {"id": "f1", "name": ` + name + `, "vcpus": 1, "ram": 1, "disk": 0, "description": ` +
				description + `}}`
		}
		for _, text := range []string{`a\u0000b`, `a\ud83db`, `a\ufffeb`, "a\uffffb", "\xff"} {
			for place, r := range map[string][3]string{
				"flavor.name":        {"POST", "/v2.1/flavors", flavor(`"`+text+`"`, `"d"`)},
				"flavor.description": {"POST", "/v2.1/flavors", flavor(`"n"`, `"`+text+`"`)},
				"extra_specs.a":      {"POST", "/v2.1/flavors/f1/os-extra_specs", `{"extra_specs": {"a": "` + text + `"}}`},
				"server.metadata.k":  {"POST", "/v2.1/servers", `{"server": {"metadata": {"k": "` + text + `"}}}`},
			} {
				got := h.ask(r[0], r[1], r[2], admin...)
				if got.status != 400 || !strings.Contains(got.text, "Invalid text in "+place+": it contains") {
					t.Errorf("%q at %s: %d %s", text, place, got.status, got.text)
				}
			}
		}
		for _, text := range []string{"\x00", "\ufffe", "\xff"} {
			for _, path := range []string{"/v2.1/servers?name=" + url.QueryEscape(text), "/v2.1/servers/detail?flavor=" +
				url.QueryEscape(text), "/v2.1/flavors/" + url.PathEscape(text), "/v2.1/servers/" + url.PathEscape(text)} {
				if got := h.ask("GET", path, "", admin...); got.status != 400 {
					t.Errorf("%s: %d %s", path, got.status, got.text)
				}
			}
		}
		if got := h.ask("GET", "/v2.1/servers?name="+strings.Repeat("a", 60_000), "", admin...); got.status != 400 {
			t.Errorf("a long filter: %d %s", got.status, got.text)
		}
		for path, body := range map[string]string{
			"/v2.1/flavors": flavor(`"n"`, `"🔥"`), "/v2.1/flavors/f1/os-extra_specs": `{"extra_specs": {"a": "🔥"}}`,
		} {
			if got := h.ask("POST", path, body, admin...); got.status >= 500 {
				t.Errorf("%s: %d %s", path, got.status, got.text)
			}
		}
		if got := h.ask("GET", "/v2.1/servers?name="+url.QueryEscape("🔥"), "", admin...); got.status >= 500 {
			t.Errorf("a filter with an emoji: %d %s", got.status, got.text)
		}
	})
}

package server

import (
	"strings"
	"testing"
)

// With the option, the headers of a proxy are applied as in oslo.middleware's http_proxy_to_wsgi.
func TestForwarded(t *testing.T) {
	trusting, plain := newWorld(t, func(o *Options) { o.ProxyHeaders = true }), newWorld(t)
	const here = "http://example.com"
	for _, c := range []struct {
		name    string
		headers []string
		want    string // the URL before /traits/CUSTOM_A
	}{
		{"no header", nil, here},
		{"https", []string{"X-Forwarded-Proto", "https"}, "https://example.com"},
		{"all", []string{"X-Forwarded-Proto", "https", "X-Forwarded-Host", "api.example:8778", "X-Forwarded-Prefix",
			"/placement"}, "https://api.example:8778/placement"},
		{"the default port", []string{"X-Forwarded-Proto", "https", "X-Forwarded-Host", "api.example:443"},
			"https://api.example"},
		{"several proxies", []string{"X-Forwarded-Proto", "https, http", "X-Forwarded-Host", "api.example, inner"},
			"https://api.example"},
		{"RFC 7239", []string{"Forwarded", `for="[2001:db8::1]:9";Proto=https;HOST="api.example", for=10.0.0.1;host=inner`},
			"https://api.example"},
		{"RFC 7239 has precedence", []string{"Forwarded", "host=a.example", "X-Forwarded-Host", "b.example",
			"X-Forwarded-Proto", "https"}, "http://a.example"},
		{"RFC 7239 with a prefix", []string{"Forwarded", "host=a.example", "X-Forwarded-Prefix", "p/"},
			"http://a.example/p"},
		{"invalid values", []string{"X-Forwarded-Proto", "javascript", "X-Forwarded-Host", " ", "X-Forwarded-Prefix", "/"},
			here},
		{"invalid Forwarded", []string{"Forwarded", ";;=,=;"}, here},
	} {
		t.Run(c.name, func(t *testing.T) {
			resp := trusting.ask("1.39", "PUT", "/traits/CUSTOM_A", "", c.headers...)
			if got := resp.Header.Get("Location"); got != c.want+"/traits/CUSTOM_A" {
				t.Errorf("location %s, want %s", got, c.want)
			}
			if got := plain.ask("1.39", "PUT", "/traits/CUSTOM_A", "", c.headers...).Header.Get("Location"); got != here+
				"/traits/CUSTOM_A" {
				t.Errorf("without the option: %s", got)
			}
		})
	}
	prefix := []string{"X-Forwarded-Prefix", "/placement"}
	made := bodyOf(t, trusting.ask("1.39", "POST", "/resource_providers", `{"name":"host"}`, prefix...))
	classes := bodyOf(t, trusting.ask("1.39", "GET", "/resource_classes", "", prefix...))
	if strings.Count(made, `"href":"/placement/resource_providers/`) != 6 ||
		!strings.Contains(classes, `"href":"/placement/resource_classes/VCPU"`) {
		t.Errorf("links without the prefix: %s %.300s", made, classes)
	}
	if text := bodyOf(t, plain.ask("1.39", "GET", "/resource_classes", "", prefix...)); !strings.Contains(text,
		`"href":"/resource_classes/VCPU"`) {
		t.Errorf("without the option: %.300s", text)
	}
}

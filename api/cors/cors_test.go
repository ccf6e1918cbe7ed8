package cors

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// The expected answers are those of OpenStack's own Placement (Debian's placement-api with python3-oslo.middleware
// 5.0.0) with the same configuration and requests.
func TestHeadersOfTheOriginal(t *testing.T) {
	o := Defaults()
	o.AllowedOrigin, o.MaxAge = []string{"https://a.example", "https://b.example:8443"}, 100
	const (
		exposed = " | access-control-expose-headers: X-Auth-Token,X-Openstack-Request-Id,X-Subject-Token," +
			"X-Service-Token,OpenStack-API-Version"
		a     = "access-control-allow-credentials: true | access-control-allow-origin: https://a.example"
		plain = "access-control-allow-credentials: true | access-control-allow-methods: GET | " +
			"access-control-allow-origin: https://a.example | access-control-max-age: 100 | vary: Origin"
	)
	for _, c := range []struct {
		name, method string
		headers      []string // of the request
		status       int      // of the service's answer
		answer       []string // its headers
		want         string
	}{
		{"no origin", "GET", nil, 200, []string{"Vary", "openstack-api-version"}, "200 vary: openstack-api-version"},
		{"an origin", "GET", []string{"Origin", "https://a.example"}, 200, []string{"Vary", "openstack-api-version"},
			"200 " + a + exposed + " | vary: openstack-api-version,Origin"},
		{"an origin with a port", "GET", []string{"Origin", "https://b.example:8443"}, 200, nil,
			"200 " + strings.Replace(a, "a.example", "b.example:8443", 1) + exposed + " | vary: Origin"},
		{"another port", "GET", []string{"Origin", "https://b.example"}, 200, nil, "200 "},
		{"an origin that is not allowed", "GET", []string{"Origin", "https://evil.example"}, 200, nil, "200 "},
		{"capitals", "GET", []string{"Origin", "https://A.example"}, 200, nil, "200 "},
		{"no token", "GET", []string{"Origin", "https://a.example"}, 401, []string{"Content-Type", "application/json"},
			"401 " + a + exposed + " | content-type: application/json | vary: Origin"},
		{"OPTIONS", "OPTIONS", nil, 401, []string{"Content-Type", "application/json"}, "200 replaced "},
		{"OPTIONS without a requested method", "OPTIONS", []string{"Origin", "https://a.example"}, 405,
			[]string{"Allow", "GET"},
			"200 replaced "},
		{"a preflight", "OPTIONS", []string{"Origin", "https://a.example", "Access-Control-Request-Method", "GET"}, 401, nil,
			"200 replaced " + plain},
		{"a preflight with headers", "OPTIONS",
			[]string{"Origin", "https://a.example", "Access-Control-Request-Method", "PATCH",
				"Access-Control-Request-Headers", "x-auth-token, Accept,,OPENSTACK-API-VERSION"}, 401, nil,
			"200 replaced access-control-allow-credentials: true | access-control-allow-headers: x-auth-token,Accept," +
				"OPENSTACK-API-VERSION | " +
				"access-control-allow-methods: PATCH | access-control-allow-origin: https://a.example | " +
				"access-control-max-age: 100 | vary: Origin"},
		{"a preflight with an empty header list", "OPTIONS",
			[]string{"Origin", "https://a.example", "Access-Control-Request-Method", "GET",
				"Access-Control-Request-Headers", ""}, 401, nil, "200 replaced " + plain},
		{"a method that is not allowed", "OPTIONS",
			[]string{"Origin", "https://a.example", "Access-Control-Request-Method", "OPTIONS"}, 401, nil, "200 replaced "},
		{"a method in small letters", "OPTIONS",
			[]string{"Origin", "https://a.example", "Access-Control-Request-Method", "get"}, 401, nil, "200 replaced "},
		{"a header that is not allowed", "OPTIONS",
			[]string{"Origin", "https://a.example", "Access-Control-Request-Method", "GET",
				"Access-Control-Request-Headers", "X-Foo"}, 401, nil, "200 replaced "},
		{"a preflight from an origin that is not allowed", "OPTIONS",
			[]string{"Origin", "https://sub.example", "Access-Control-Request-Method", "GET"}, 401, nil, "200 replaced "},
		{"a service that answers OPTIONS", "OPTIONS",
			[]string{"Origin", "https://a.example", "Access-Control-Request-Method", "GET"}, 204,
			[]string{"Allow", "GET"}, "204 " + strings.Replace(plain, "max-age: 100", "max-age: 100 | allow: GET", 1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := answerAfter(New(o), c.method, c.headers, c.status, c.answer); got != c.want {
				t.Errorf("\n%s, want\n%s", got, c.want)
			}
		})
	}
}

// answerAfter formats an answer after Apply.
func answerAfter(p *Handler, method string, request []string, status int, answer []string) string {
	r := httptest.NewRequest(method, "/traits", nil)
	for i := 0; i < len(request); i += 2 {
		r.Header.Set(request[i], request[i+1])
	}
	h := http.Header{}
	for i := 0; i < len(answer); i += 2 {
		h.Set(answer[i], answer[i+1])
	}
	status, replaced := p.Apply(r, status, h)
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(h)) {
		lines = append(lines, strings.ToLower(name)+": "+strings.Join(h[name], "; "))
	}
	word := ""
	if replaced {
		word = "replaced "
	}
	return fmt.Sprint(status, " ", word, strings.Join(lines, " | "))
}

// Options other than the defaults have the same effect as in oslo.middleware.
func TestOptions(t *testing.T) {
	get, preflight := []string{"Origin", "https://x.example"},
		[]string{"Origin", "https://x.example", "Access-Control-Request-Method", "TRACE"}
	o := Options{AllowedOrigin: []string{"*"}, AllowMethods: []string{"TRACE"}}
	if got, want := answerAfter(New(o), "GET", get, 200, nil),
		"200 access-control-allow-origin: * | vary: Origin"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := answerAfter(New(o), "OPTIONS", preflight, 401, nil),
		"200 replaced access-control-allow-methods: TRACE | access-control-allow-origin: * | vary: Origin"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	o.AllowedOrigin = []string{"*", "https://x.example"}
	if got, want := answerAfter(New(o), "GET", get, 200, nil),
		"200 access-control-allow-origin: https://x.example | vary: Origin"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if p := New(Defaults()); p != nil {
		t.Errorf("without origins there is a policy: %+v", p)
	}
	if got := answerAfter(nil, "OPTIONS", preflight, 401, []string{"Allow", "GET"}); got != "401 allow: GET" {
		t.Errorf("no policy: %s", got)
	}
}

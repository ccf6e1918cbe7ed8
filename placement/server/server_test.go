package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/api/edge"
	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/server/request"
)

// The checks before a handler have the order of the original.
func TestChecksBeforeTheHandler(t *testing.T) {
	w := newWorld(t)
	const noToken, version = "X-Auth-Token", api.VersionHeader
	for _, c := range []struct {
		name, method, path, body string
		headers                  []string
		status                   int
		want                     string // part of the body
	}{
		{"version document", "GET", "/", "", []string{noToken, ""}, 200, `"max_version":"1.39"`},
		{"version document at the empty path", "GET", "", "", []string{noToken, ""}, 200, `"min_version":"1.0"`},
		{"no token", "GET", "/resource_providers", "", []string{noToken, ""}, 401, `"code":"401 Unauthorized"`},
		{"no token and no path", "GET", "/nowhere", "", []string{noToken, ""}, 401, "Unauthorized"},
		{"no token and an unknown version", "GET", "/resource_providers", "",
			[]string{noToken, "", version, "placement 9.9"}, 401, "Unauthorized"},
		{"latest", "GET", "/resource_providers", "", []string{version, "placement latest"}, 200, "[]"},
		{"unknown version", "GET", "/resource_providers", "", []string{version, "placement 1.40"}, 406,
			`"max_version":"1.39","min_version":"1.0"`},
		{"unknown version of the document", "GET", "/", "", []string{version, "placement 1.40"}, 406, `"max_version"`},
		{"malformed version", "GET", "/resource_providers", "", []string{version, "placement one"}, 400, "Bad Request"},
		{"a caller without a role", "GET", "/resource_providers", "", []string{noToken, "bob"}, 403, "Forbidden"},
		{"a role from the header", "GET", "/resource_providers", "",
			[]string{noToken, "bob", "X-Roles", "reader,admin"},
			200, "[]"},
		{"a header without the role admin", "GET", "/resource_providers", "", []string{"X-Roles", "reader"}, 403,
			"Policy"},
		{"a service", "GET", "/resource_providers", "", []string{noToken, "nova", "X-Roles", "service"}, 200, "[]"},
		{"a reader of its own project", "GET", "/usages?project_id=p", "",
			[]string{noToken, "bob:p", "X-Roles", "reader"},
			200, "usages"},
		{"a reader of another project", "GET", "/usages?project_id=q", "",
			[]string{noToken, "bob:p", "X-Roles", "reader"},
			403, "Policy"},
		{"unknown path", "GET", "/nowhere", "", nil, 404, "Not Found"},
		{"a trailing slash", "GET", "/resource_providers/", "", nil, 404, "Not Found"},
		{"an empty segment", "GET", "/resource_providers//inventories", "", nil, 404, "Not Found"},
		{"wrong method", "PATCH", "/resource_providers", "", nil, 405, "Method Not Allowed"},
		{"wrong method without a role", "PATCH", "/resource_providers", "", []string{noToken, "bob"}, 405,
			"Method Not Allowed"},
		{"HEAD", "HEAD", "/resource_providers", "", nil, 405, ""},
		{"a later microversion's path", "POST", "/reshaper", "{}", []string{version, "placement 1.29"}, 404,
			"Not Found"},
		{"no content type", "POST", "/resource_providers", "{}", []string{"Content-Type", ""}, 400, "content-type"},
		{"wrong content type", "POST", "/resource_providers", "{}", []string{"Content-Type", "text/plain"}, 415,
			"text/plain"},
		{"content type with parameters", "POST", "/resource_providers", `{}`,
			[]string{"Content-Type", "application/json; charset=utf-8"}, 400, "name"},
		{"no body and no content type", "POST", "/resource_providers", "", nil, 415, "None"},
		{"accepts only HTML", "GET", "/resource_providers", "", []string{"Accept", "text/html"}, 406,
			"application/json"},
		{"accepts anything except JSON", "GET", "/resource_providers", "", []string{"Accept", "application/json;q=0"},
			406,
			"application/json"},
		{"accepts anything", "GET", "/resource_providers", "", []string{"Accept", "text/html, */*;q=0.1"}, 200, "[]"},
		{"a malformed escape in a query", "GET", "/resource_providers?name=%zz", "", nil, 200, "[]"},
		{"a semicolon in a query", "GET", "/resource_providers?name=a;uuid=b", "", nil, 400, "uuid"},
		{"a query that is not UTF-8", "GET", "/resource_providers?name=%ff", "", nil, 400, "UTF-8"},
		{"a long query", "GET", "/resource_providers?name=" + strings.Repeat("n", edge.MaxRequestLine), "", nil, 414,
			"over"},
	} {
		t.Run(c.name, func(t *testing.T) {
			resp := w.ask("1.39", c.method, c.path, c.body, c.headers...)
			body := bodyOf(t, resp)
			if resp.StatusCode != c.status || !strings.Contains(body, c.want) {
				t.Errorf("%d %s, want %d with %q", resp.StatusCode, body, c.status, c.want)
			}
			if id := resp.Header.Get("X-Openstack-Request-Id"); !strings.HasPrefix(id, "req-") ||
				resp.Header.Get("Openstack-Request-Id") != id {
				t.Errorf("request ids %q and %q", id, resp.Header.Get("Openstack-Request-Id"))
			}
			negotiated := c.status != 401 && !strings.Contains(body, "microversion") && c.status != 414
			if got := resp.Header.Get(api.VersionHeader); strings.HasPrefix(got, "placement 1.") != negotiated ||
				(resp.Header.Get("Vary") == "openstack-api-version") != negotiated {
				t.Errorf("%s: %q, vary %q", api.VersionHeader, got, resp.Header.Get("Vary"))
			}
			if (resp.Header.Get("Allow") != "") != (c.status == 405) {
				t.Errorf("allow: %q", resp.Header.Get("Allow"))
			}
		})
	}
}

// Every error document has all members, and a code since 1.23.
func TestErrorDocument(t *testing.T) {
	w := newWorld(t)
	for version, code := range map[string]string{"1.22": "", "1.23": api.CodeUndefined} {
		var got api.ErrorsDoc
		resp := w.ask(version, "GET", "/resource_providers/x", "")
		if err := json.Unmarshal([]byte(bodyOf(t, resp)), &got); err != nil || len(got.Errors) != 1 {
			t.Fatalf("%v %+v", err, got)
		}
		e := got.Errors[0]
		if e.Status != 404 || e.Title != "Not Found" || e.Detail == "" || e.Code != code ||
			e.RequestID != resp.Header.Get("Openstack-Request-Id") {
			t.Errorf("%s: %+v", version, e)
		}
		if strings.Contains(e.Detail, "placement.") {
			t.Errorf("the detail names a package: %q", e.Detail)
		}
	}
}

// A handler that panics or fails is answered with 500 and a request id that is also in the log, without the cause.
func TestCausesOfServerErrorsAreOnlyLogged(t *testing.T) {
	var log bytes.Buffer
	w := newWorld(t, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	for path, handle := range map[string]func(*request.Call) error{
		"/panics": func(*request.Call) error { panic("the secret") },
		"/fails":  func(*request.Call) error { return errors.New("the secret") },
		"/down":   func(*request.Call) error { return fault.New(fault.Unavailable, "the secret") },
	} {
		w.handle(path, handle)
		log.Reset()
		resp := w.ask("1.39", "GET", path, "")
		body, id := bodyOf(t, resp), resp.Header.Get("Openstack-Request-Id")
		if want := map[string]int{"/panics": 500, "/fails": 500, "/down": 503}[path]; resp.StatusCode != want {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
		if strings.Contains(body, "secret") || !strings.Contains(body, id) {
			t.Errorf("%s: body %s", path, body)
		}
		faults := slices.DeleteFunc(strings.Split(log.String(), "\n"),
			func(line string) bool { return !strings.Contains(line, "level=ERROR") })
		if len(faults) != 1 || !strings.Contains(faults[0], "the secret") || !strings.Contains(faults[0], id) {
			t.Errorf("%s: log %q", path, faults)
		}
	}
	if resp := w.ask("1.39", "GET", "/resource_providers", ""); resp.StatusCode != 200 {
		t.Errorf("afterwards: %d", resp.StatusCode)
	}
}

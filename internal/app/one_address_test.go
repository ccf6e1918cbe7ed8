package app

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/internal/join"
	"github.com/openberth/berth/internal/settings"
	"github.com/openberth/berth/internal/userfile"
)

// One address serves all APIs below their paths: the catalog needs no account, links have the prefix, clients work, and
// other paths are answered with the paths that exist.
func TestOneAddress(t *testing.T) {
	t.Parallel()
	c, err := OpenCloud(t.Context(), readSettings(t, "[DEFAULT]\nhost = cmp1\n"), t.TempDir(),
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	server := httptest.NewServer(c.Handler())
	defer server.Close()
	get := func(path string) (int, string) {
		t.Helper()
		r, err := http.NewRequest(http.MethodGet, server.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Auth-Token", "admin")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(body)
	}
	status, text := get("/")
	var catalog struct{ Services []catalogEntry }
	if err := json.Unmarshal([]byte(text), &catalog); err != nil || status != http.StatusOK || len(catalog.Services) != 4 {
		t.Fatalf("%d %s %v", status, text, err)
	}
	for _, entry := range catalog.Services {
		status, text := get(strings.TrimPrefix(entry.URL, server.URL))
		if status >= http.StatusBadRequest {
			t.Errorf("%s: %d %s", entry.URL, status, text)
		}
	}
	for path, part := range map[string]string{
		"/compute/":             server.URL + "/compute/v2.1/",
		"/compute":              server.URL + "/compute/v2.1/",
		"/network/":             server.URL + "/network/v2.0/",
		"/image/":               server.URL + "/image/v2/",
		"/placement/":           `"versions"`,
		"/healthz":              "OK",
		"/compute/v2.1/flavors": `"flavors"`,
	} {
		if status, text := get(path); status >= http.StatusBadRequest || !strings.Contains(text, part) {
			t.Errorf("%s: %d %s; want %s", path, status, text, part)
		}
	}
	for _, path := range []string{"/compute/metrics", "/placement/metrics"} { // without an account, they name projects
		if status, text := get(path); status != http.StatusNotFound || !strings.Contains(text, "at its own address") {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	for _, path := range []string{"/v2.1/servers", "/computes/v2.1", "//compute/v2.1", "/../compute"} {
		if status, text := get(path); status != http.StatusNotFound || !strings.Contains(text, "below /compute, /image") {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	f, err := compute.NewClient(server.URL+"/compute", nil, "admin").CreateFlavor(t.Context(),
		compute.CreateFlavor{Name: "small", VCPUs: 1, RAM: 64})
	if err != nil {
		t.Fatal(err)
	}
	if _, text := get("/compute/v2.1/flavors/" + f.ID); !strings.Contains(text, server.URL+"/compute/v2.1/flavors/"+f.ID) {
		t.Errorf("links without the prefix: %s", text)
	}
	if _, err := network.NewClient(server.URL+"/network", nil, "admin").CreateNetwork(t.Context(),
		map[string]any{"name": "lan"}); err != nil {
		t.Error(err)
	}
	if _, err := c.PlacementClient().Providers(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// Only accounts of hosts get certificates: none without authentication, and no account of a user.
func TestCertificatesAreForHosts(t *testing.T) {
	t.Parallel()
	users := userfile.Files{Users: t.TempDir() + "/htpasswd"}
	users.Roles = users.Users + settings.RolesSuffix
	for name, role := range map[string]string{"ann": "member", "host-x": "service", "root": "service"} {
		if err := users.Add(userfile.User{Name: name, Project: "p", Roles: []string{role}}, "secret"); err != nil {
			t.Fatal(err)
		}
	}
	basic := "[api]\nauth_strategy = http_basic\n[DEFAULT]\nhttp_basic_auth_user_file = " + users.Users + "\n"
	for _, test := range []struct {
		options, name, password string
		status                  int
	}{{"", "host-x", "secret", http.StatusForbidden}, {basic, "host-x", "wrong", http.StatusUnauthorized},
		{basic, "ann", "secret", http.StatusForbidden}, {basic, "root", "secret", http.StatusForbidden},
		{basic, "host-x", "secret", http.StatusBadRequest}} { // of an empty request
		c, err := OpenCloud(t.Context(), readSettings(t, "[DEFAULT]\nhost = cmp1\n"+test.options), t.TempDir(),
			slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodPost, join.CertificatesPath, strings.NewReader("{}"))
		r.SetBasicAuth(test.name, test.password)
		r.Header.Set("X-Auth-Token", test.name)
		w := httptest.NewRecorder()
		c.Handler().ServeHTTP(w, r)
		if w.Code != test.status {
			t.Errorf("%+v: %d %s", test, w.Code, w.Body)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

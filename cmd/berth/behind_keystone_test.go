package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/internal/keystone"
)

// TestBehindKeystone runs the tests that need Debian's Keystone. Its start is slow, so they share one.
func TestBehindKeystone(t *testing.T) {
	t.Parallel()
	k := keystone.Start(t)
	t.Run("images", func(t *testing.T) { testImages(t, k) })
	t.Run("compute", func(t *testing.T) { testComputeWithKeystone(t, k) })
	t.Run("limits", func(t *testing.T) { testUnifiedLimits(t, k) })
	t.Run("network", func(t *testing.T) { testNetworkWithKeystone(t, k) })
	t.Run("placement", func(t *testing.T) { testPlacementWithKeystone(t, k) }) // last: it stops Keystone
}

// testPlacementWithKeystone checks which tokens may use placement with Keystone and a policy file.
func testPlacementWithKeystone(t *testing.T, k *keystone.Keystone) {
	k.User(t, "placement", "service", "service")
	k.User(t, "reader", "tenant", "reader")
	dir := t.TempDir()
	policyFile := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(policyFile, []byte("\"placement:traits:list\": \"role:reader or role:admin\"\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(dir, "placement.conf")
	text := `[placement_database]
connection = sqlite:///` + dir + `/placement.db
[api]
auth_strategy = keystone
[keystone_authtoken]
auth_type = password
auth_url = ` + k.URL + `
www_authenticate_uri = ` + k.URL + `
username = placement
password = placement
project_name = service
user_domain_name = Default
project_domain_name = Default
[cors]
allowed_origin = https://horizon.example
`
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d := start(t, []string{"placement"}, "placement", "--config-file", conf, "--listen", "127.0.0.1:0")
	get := func(path, token string) (int, http.Header, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), "GET", d.urls["placement"]+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Origin", "https://horizon.example")
		req.Header.Set("OpenStack-API-Version", "placement 1.39")
		if token != "" {
			req.Header.Set("X-Auth-Token", token)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, resp.Header, string(body)
	}
	admin := k.Token(t, k.AdminUser, k.AdminPassword, k.AdminProject)
	reader := k.Token(t, "reader", "reader", "tenant")
	for _, c := range []struct {
		path, token string
		want        int
	}{
		{"/", "", 200}, // the version document needs no token
		{"/resource_providers", "", 401},
		{"/resource_providers", "nonsense", 401},
		{"/resource_providers", admin, 200},
		{"/resource_providers", reader, 403},
		{"/traits", reader, 200}, // allowed by the policy file
		{"/usages?project_id=another", reader, 403},
	} {
		status, header, body := get(c.path, c.token)
		if status != c.want {
			t.Errorf("GET %s: %d, want %d: %s\n%s", c.path, status, c.want, body, d.log)
		}
		if status == 401 && !strings.Contains(header.Get("WWW-Authenticate"), k.URL) {
			t.Errorf("GET %s: no URL of Keystone in WWW-Authenticate: %v", c.path, header)
		}
		if header.Get("Access-Control-Allow-Origin") != "https://horizon.example" {
			t.Errorf("GET %s: no CORS headers: %v", c.path, header)
		}
	}
	k.Stop()
	if status, _, body := get("/resource_providers", admin); status != 200 {
		t.Errorf("a cached token while Keystone is stopped: %d %s", status, body)
	}
	if status, _, body := get("/resource_providers", "another"); status != 503 {
		t.Errorf("an unknown token while Keystone is stopped: %d %s", status, body)
	}
	d.stop(t)
}

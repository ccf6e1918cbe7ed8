package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// With noauth2 every web page with an allowed origin is an administrator. So an origin that any page can have stops the
// start, whether noauth2 is set or implied. Nothing is written.
func TestAnyOriginWithNoAuth2StopsTheStart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ command, text string }{
		"up":              {"up", "[api]\nauth_strategy = noauth2\n[cors]\nallowed_origin = *\n"},
		"up implied":      {"up", "\n\n[cors]\nallowed_origin = *\n"},
		"up among others": {"up", "\n\n[cors]\nallowed_origin = https://a.example, * ,https://b.example\n"},
		"up null":         {"up", "\n\n[cors]\nallowed_origin = https://a.example,null\n"},
		"placement":       {"placement", "[api]\nauth_strategy = noauth2\n[cors]\nallowed_origin = *\n"},
		"compute":         {"compute", "\n\n[cors]\nallowed_origin = *\n"},
		"placement later value": {"placement", "[api]\nauth_strategy = noauth2\n[cors]\nallowed_origin = " +
			"*\nallow_credentials = false\n"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path, data := filepath.Join(dir, "berth.conf"), filepath.Join(dir, "data")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			args := map[string][]string{"up": {"--listen-placement", "127.0.0.1:0", "--listen-compute", "127.0.0.1:0",
				"--listen-network", "127.0.0.1:0", "--listen-image",
				"127.0.0.1:0"},
				"placement": {"--listen", "127.0.0.1:0"}, "compute": {"--listen", "127.0.0.1:0"}}
			stdout, stderr, status := output(t, append([]string{c.command, "--config-file", path, "--data-dir", data},
				args[c.command]...)...)
			if status != 1 || !strings.Contains(stderr, ":4: [cors] allowed_origin = ") || !strings.Contains(stderr,
				"administrator") || stdout != "" {
				t.Errorf("status %d:\n%s%s", status, stdout, stderr)
			}
			if _, err := os.Stat(data); err == nil {
				t.Error("the data directory was created")
			}
		})
	}
}

// With noauth2 only the configured origins may use the API. The log warns that they are administrators.
func TestNamedOriginsWithNoAuth2(t *testing.T) {
	t.Parallel()
	d := start(t, []string{"placement"}, "placement", "--config-file", conf(t, machine(t, 1, 1), "[cors]",
		"allowed_origin = https://trusted.example"),
		"--data-dir", t.TempDir(), "--listen", "127.0.0.1:0")
	for origin, want := range map[string]string{"https://trusted.example": "https://trusted.example",
		"https://other.example": "", "null": ""} {
		req, err := http.NewRequest("GET", d.urls["placement"]+"/resource_providers", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Auth-Token", "admin")
		req.Header.Set("Origin", origin)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := resp.Header.Get("Access-Control-Allow-Origin"); got != want || resp.StatusCode != 200 {
			t.Errorf("%s: %d %q", origin, resp.StatusCode, got)
		}
	}
	if log := d.log.String(); !strings.Contains(log, "https://trusted.example") ||
		!strings.Contains(log, "administrator") {
		t.Errorf("no warning in the log:\n%s", log)
	}
	d.stop(t)
}

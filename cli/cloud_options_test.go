package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
)

// setVariables sets the OS_ variables and unsets all others of the person who runs the test.
func setVariables(t *testing.T, variables map[string]string) {
	t.Helper()
	for _, one := range os.Environ() {
		if name, _, _ := strings.Cut(one, "="); strings.HasPrefix(name, "OS_") {
			t.Setenv(name, "")
		}
	}
	for name, value := range variables {
		t.Setenv(name, value)
	}
}

// service records the credentials of requests.
func service(t *testing.T) (url string, last *http.Header) {
	last = &http.Header{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*last = r.Header.Clone()
		w.Write([]byte(`{"hosts": []}`))
	}))
	t.Cleanup(server.Close)
	return server.URL, last
}

func TestAccountsOfTheVariables(t *testing.T) {
	url, last := service(t)
	basic := map[string]string{"OS_AUTH_TYPE": "http_basic", "OS_USERNAME": "ann", "OS_PASSWORD": "secret",
		"OS_ENDPOINT": url + "/v2.1"}
	for _, c := range []struct {
		name      string
		variables map[string]string
		globals   Globals
		token     string // X-Auth-Token; empty: name and password
	}{
		{"no account", nil, Globals{ComputeURL: url}, "admin"},
		{"auth_type none", map[string]string{"OS_AUTH_TYPE": "none"}, Globals{ComputeURL: url}, "admin"},
		{"a token", map[string]string{"OS_TOKEN": "t", "OS_ENDPOINT": url}, Globals{}, "t"},
		{"a token of an unscoped type", map[string]string{"OS_AUTH_TYPE": "admin_token", "OS_TOKEN": "t", "OS_URL": url},
			Globals{}, "t"},
		{"--token has priority", basic, Globals{Token: "mine", ComputeURL: url}, "mine"},
		{"name and password", basic, Globals{}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			setVariables(t, c.variables)
			if _, err := c.globals.hosts().Hosts(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := last.Get("X-Auth-Token"); got != c.token {
				t.Errorf("token %q, want %q", got, c.token)
			}
			name, password, _ := (&http.Request{Header: *last}).BasicAuth()
			if c.token == "" && (name != "ann" || password != "secret") || c.token != "" && name != "" {
				t.Errorf("signed as %q %q", name, password)
			}
		})
	}
}

func TestIncompleteAccountSendsNothing(t *testing.T) {
	for want, variables := range map[string]map[string]string{
		"OS_PASSWORD is not set":                  {"OS_AUTH_URL": "http://k:5000", "OS_USERNAME": "ann"},
		"OS_USERNAME is not set":                  {"OS_AUTH_TYPE": "http_basic", "OS_PASSWORD": "secret"},
		"OS_TOKEN is not set":                     {"OS_AUTH_TYPE": "token"},
		`"v3totp" is not supported; use password`: {"OS_AUTH_TYPE": "v3totp"},
		"OS_AUTH_URL = controller is not":         {"OS_AUTH_URL": "controller", "OS_USERNAME": "a", "OS_PASSWORD": "secret"},
	} {
		setVariables(t, variables)
		g := Globals{ComputeURL: "http://127.0.0.1:1"}
		_, err := g.hosts().Hosts(t.Context())
		if !fault.Is(err, fault.Invalid) || !strings.Contains(fault.TextOf(err), want) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestCloudsFile(t *testing.T) {
	url, last := service(t)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	clouds := file("clouds.yaml", `clouds:
  red:
    auth_type: http_basic
    auth: {username: ann}
    compute_endpoint_override: `+url+`/v2.1
  profiled: {profile: vendor}
`)
	secure := file("secure.yaml", "clouds: {red: {auth: {password: secret}}}\n")
	signs := func(variables map[string]string, want string) {
		t.Helper()
		setVariables(t, variables)
		g := Globals{OSCloud: "red"}
		if _, err := g.hosts().Hosts(t.Context()); err != nil {
			t.Fatal(err)
		}
		if name, password, _ := (&http.Request{Header: *last}).BasicAuth(); name != "ann" || password != want {
			t.Errorf("signed as %q %q, want %q", name, password, want)
		}
	}
	signs(map[string]string{"OS_CLIENT_CONFIG_FILE": clouds, "OS_CLIENT_SECURE_FILE": secure}, "secret")
	signs(map[string]string{"OS_CLIENT_CONFIG_FILE": clouds, "OS_PASSWORD": "variable", "OS_USERNAME": "bob"}, "variable")

	for name, want := range map[string]string{"green": clouds + " has no cloud green", "profiled": "profiles are not",
		"red": "password of cloud red in " + clouds + " is not set"} {
		setVariables(t, map[string]string{"OS_CLIENT_CONFIG_FILE": clouds})
		g := Globals{OSCloud: name}
		if _, err := g.hosts().Hosts(t.Context()); err == nil || !strings.Contains(fault.TextOf(err), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	broken := file("broken.yaml", "clouds: [a: secret")
	setVariables(t, map[string]string{"OS_CLIENT_CONFIG_FILE": broken})
	g := Globals{OSCloud: "red"}
	if _, err := g.hosts().Hosts(t.Context()); !fault.Is(err, fault.Invalid) ||
		!strings.Contains(err.Error(), broken+" is not valid") || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
}

// Certificates are those of the command line, and where it has none those of the cloud. Errors name the option.
func TestCertificatesOfCloud(t *testing.T) {
	dir := t.TempDir()
	clouds := filepath.Join(dir, "clouds.yaml")
	text := "clouds: {red: {auth_type: http_basic, auth: {username: ann, password: secret}, cacert: /cloud/ca.pem}}\n"
	if err := os.WriteFile(clouds, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name      string
		globals   Globals
		variables map[string]string
		want      string
	}{
		{"cloud", Globals{OSCloud: "red"}, nil,
			"cacert of cloud red in " + clouds + " cannot be read: open /cloud/ca.pem"},
		{"flag over cloud", Globals{OSCloud: "red", CAFile: "/flag/ca.pem"}, nil,
			"--ca-file (or BERTH_CA_FILE) cannot be read: open /flag/ca.pem"},
		{"flag with a token", Globals{Token: "t", CAFile: "/flag/ca.pem"}, map[string]string{"OS_CACERT": "/env/ca.pem"},
			"--ca-file (or BERTH_CA_FILE) cannot be read: open /flag/ca.pem"},
		{"variable", Globals{}, map[string]string{"OS_CERT": "/env/cert.pem"}, "OS_CERT and OS_KEY cannot be used"},
	} {
		setVariables(t, map[string]string{"OS_CLIENT_CONFIG_FILE": clouds})
		for name, value := range c.variables {
			t.Setenv(name, value)
		}
		c.globals.ComputeURL = "https://127.0.0.1:1"
		_, err := c.globals.hosts().Hosts(t.Context())
		if !fault.Is(err, fault.Invalid) || !strings.Contains(fault.TextOf(err), c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

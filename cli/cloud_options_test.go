package cli

import (
	"encoding/pem"
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

// --url is the address of all services. Without an address and an account the cloud berth of clouds.yaml is used.
func TestOneAddressAndDefaultCloud(t *testing.T) {
	url, last := service(t)
	clouds := filepath.Join(t.TempDir(), "clouds.yaml")
	text := "clouds:\n  berth:\n    auth_type: http_basic\n    auth: {username: ann, password: secret}\n" +
		"    compute_endpoint_override: " + url + "/compute/v2.1\n"
	if err := os.WriteFile(clouds, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	file := map[string]string{"OS_CLIENT_CONFIG_FILE": clouds}
	for _, c := range []struct {
		name      string
		variables map[string]string
		globals   Globals
		user      string // empty: the token admin
	}{
		{"the default cloud", file, Globals{}, "ann"},
		{"an address", file, Globals{ComputeURL: url}, ""},
		{"one address", file, Globals{URL: url + "/"}, ""},
		{"a token", file, Globals{URL: url, Token: "admin"}, ""},
		{"variables", map[string]string{"OS_CLIENT_CONFIG_FILE": clouds, "OS_AUTH_TYPE": "http_basic", "OS_USERNAME": "bob",
			"OS_PASSWORD": "x", "OS_ENDPOINT": url}, Globals{}, "bob"},
	} {
		setVariables(t, c.variables)
		if _, err := c.globals.hosts().Hosts(t.Context()); err != nil {
			t.Fatal(c.name, err)
		}
		name, _, _ := (&http.Request{Header: *last}).BasicAuth()
		if name != c.user || c.user == "" && last.Get("X-Auth-Token") != "admin" {
			t.Errorf("%s: signed as %q, token %q", c.name, name, last.Get("X-Auth-Token"))
		}
	}
	g := Globals{URL: url + "/"}
	if base := g.networks().REST.Base; base != url+"/network" {
		t.Errorf("network at %s", base)
	}
	setVariables(t, nil)
	if base := (&Globals{}).networks().REST.Base; base != DefaultNetworkURL {
		t.Errorf("without clouds.yaml: network at %s", base)
	}
}

// The cloud that `berth cloud` prints is the one with which it was called.
func TestCloudCommand(t *testing.T) {
	setVariables(t, map[string]string{"OS_AUTH_TYPE": "http_basic", "OS_USERNAME": "ann", "OS_PASSWORD": "secret"})
	path, ca := filepath.Join(t.TempDir(), "clouds.yaml"), filepath.Join(t.TempDir(), "ca.pem")
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("OS_CLIENT_CONFIG_FILE", path)
	var out strings.Builder
	g := Globals{URL: "https://c:8770", CAFile: ca, Stdout: &out, Stderr: &out}
	if err := (&CloudCmd{Name: "red", Write: true}).Run(&g); err != nil {
		t.Fatal(err)
	}
	for name, endpoint := range map[string]string{"red": "https://c:8770/compute/v2.1",
		"red-placement": "https://c:8770/placement"} {
		c, err := readCloud(name)
		for option, want := range map[string]string{"username": "ann", "password": "secret", "endpoint": endpoint,
			"image_endpoint_override": "https://c:8770/image", "cacert": ca} {
			if err != nil || c.get(option) != want {
				t.Errorf("%s: %s is %q, want %q; %v", name, option, c.get(option), want, err)
			}
		}
	}
	setVariables(t, map[string]string{"OS_AUTH_URL": "http://k:5000", "OS_USERNAME": "ann", "OS_PASSWORD": "secret",
		"OS_PROJECT_NAME": "red", "OS_REGION_NAME": "R"})
	out.Reset()
	if err := (&CloudCmd{Name: "k"}).Run(&Globals{Stdout: &out}); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); !strings.Contains(text, "auth_url: http://k:5000") || strings.Contains(text, "endpoint") ||
		!strings.Contains(text, "region_name: R") || strings.Contains(text, "k-placement") {
		t.Error(text)
	}
	setVariables(t, nil)
	out.Reset()
	if err := (&CloudCmd{Name: "n"}).Run(&Globals{Stdout: &out}); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); !strings.Contains(text, "auth_type: admin_token") ||
		!strings.Contains(text, "network_endpoint_override: "+DefaultNetworkURL) {
		t.Error(text)
	}
}

package app

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/settings"
)

// The certificates for a service are those of the settings, else those of the flags. Errors name the option.
func TestCertificatesOfServiceClients(t *testing.T) {
	t.Parallel()
	flags := rest.TLSFiles{CAFile: "/flag", Names: rest.TLSOptionNames{CA: "--ca-file"}}
	for _, c := range []struct{ name, text, want string }{
		{"placement", "[placement]\ncafile = /p\n", "[placement] cafile cannot be read: open /p"},
		{"berth and compute", "[placement]\ninsecure = true\n[berth]\ncompute_cafile = /b\n[compute]\ncafile = /c\n",
			"[berth] compute_cafile cannot be read: open /b"},
		{"compute", "[placement]\ninsecure = true\n[compute]\ncafile = /c\n", "[compute] cafile cannot be read: open /c"},
		{"network", "[placement]\ninsecure = true\n[compute]\ninsecure = true\n[neutron]\nendpoint_override = http://n\n" +
			"cafile = /n\n", "[neutron] cafile cannot be read: open /n"},
		{"flags", "[placement]\ninsecure = true\n", "[berth] compute_cafile or --ca-file cannot be read: open /flag"},
	} {
		path := filepath.Join(t.TempDir(), "berth.conf")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := settings.Read(slog.New(slog.DiscardHandler), path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := TCPEndpoints(s, "", "", flags); !fault.Is(err, fault.Invalid) ||
			!strings.Contains(fault.TextOf(err), c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

// The agent calls the network service, and the network service compute, only if the configuration names the other
// service or an account whose catalog has it.
func TestClientsOfNamedServices(t *testing.T) {
	t.Parallel()
	const account = "auth_type = password\nauth_url = http://keystone\nusername = agent\npassword = x\n" +
		"project_name = service\nuser_domain_id = default\nproject_domain_id = default\n"
	network := func(s settings.Settings) (*rest.Client, error) {
		client, err := networkClient(s, rest.TLSFiles{})
		if client == nil {
			return nil, err
		}
		return client.REST, err
	}
	events := func(s settings.Settings) (*rest.Client, error) {
		client, err := computeClient(s)
		if client == nil {
			return nil, err
		}
		return client.REST, err
	}
	for _, c := range []struct {
		client     func(settings.Settings) (*rest.Client, error)
		text, want string
	}{
		{network, "", "none"}, {network, "[neutron]\nendpoint_override = http://n:9696/v2.0/\n", "http://n:9696"},
		{network, "[neutron]\n" + account, ""},
		{events, "", "none"}, {events, "[compute]\nendpoint_override = http://c:8774/v2.1/\n", "http://c:8774"},
		{events, "[compute]\n" + account, ""}, {events, "[compute]\ncpu_shared_set = 0\n", "none"},
	} {
		path := filepath.Join(t.TempDir(), "berth.conf")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := settings.Read(slog.New(slog.DiscardHandler), path)
		if err != nil {
			t.Fatal(err)
		}
		client, err := c.client(s)
		if err != nil {
			t.Fatal(err)
		}
		got := "none"
		if client != nil {
			got = client.Base
		}
		if got != c.want || c.want == "" && client.Locate == nil {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}

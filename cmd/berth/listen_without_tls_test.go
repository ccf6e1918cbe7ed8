package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/internal/testcert"
)

// A service that other machines can reach warns that it does not use TLS; on loopback, and with TLS, it does not.
func TestWarningWithoutTLS(t *testing.T) {
	t.Parallel()
	dir, issued := t.TempDir(), testcert.NewCA(t).Issue(t, testcert.Certificate{})
	keystone := `[api]
auth_strategy = keystone
[keystone_authtoken]
auth_type = password
auth_url = http://127.0.0.1:1
username = placement
password = placement
user_domain_name = Default
[oslo_policy]
policy_file = policy.yaml
[placement_database]
connection = sqlite:///` + dir + "/placement.db\n"
	const warning = "their tokens and data are not encrypted"
	for _, c := range []struct {
		name, listen, more string
		want               bool
	}{
		{"open", "0.0.0.0:0", "", true},
		{"loopback", "127.0.0.1:0", "", false},
		{"tls", "0.0.0.0:0", "[ssl]\ncert_file = " + issued.CertFile + "\nkey_file = " + issued.KeyFile + "\n", false},
	} {
		path := filepath.Join(dir, c.name+".conf")
		if err := os.WriteFile(path, []byte(keystone+c.more), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "policy.yaml"), []byte("{}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		d := start(t, []string{"placement"}, "placement", "--config-file", path, "--listen", c.listen)
		if strings.HasPrefix(d.urls["placement"], "https://") != (c.name == "tls") {
			t.Errorf("%s: %s", c.name, d.urls["placement"])
		}
		d.stop(t)
		if got := strings.Contains(d.log.String(), warning); got != c.want {
			t.Errorf("%s: warning %v, want %v:\n%s", c.name, got, c.want, d.log)
		}
	}
}

package settings

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A host whose libvirt accepts no connections of others is named with the commands that repair it; a host of another
// driver needs none.
func TestMoveWarnings(t *testing.T) {
	for driver, want := range map[string]string{"libvirt.LibvirtDriver": "systemctl enable --now libvirtd-tls.socket",
		"fake.FakeDriver": ""} {
		file := filepath.Join(t.TempDir(), "agent.conf")
		text := "[DEFAULT]\nhost = one\ncompute_driver = " + driver + "\n[libvirt]\n" +
			"live_migration_inbound_addr = 127.0.0.1\nlive_migration_uri = qemu+tls://%s:1/system?pkipath=/none\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, faults, err := readAll(slog.New(slog.DiscardHandler), file)
		if err != nil || len(faults) > 0 {
			t.Fatal(err, faults)
		}
		got := strings.Join(s.moveWarnings(t.Context()), "")
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q", driver, got)
		}
	}
}

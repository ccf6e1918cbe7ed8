package settings

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A host whose libvirt accepts no connections of others is named with the commands that repair it; a host of another
// driver and one without options for moves need none.
func TestMoveWarnings(t *testing.T) {
	const options = "live_migration_inbound_addr = 127.0.0.1\nlive_migration_uri = qemu+tls://%s:1/system?pkipath=/none\n"
	for _, c := range []struct{ driver, options, want string }{
		{"libvirt.LibvirtDriver", options, "systemctl enable --now libvirtd-tls.socket"},
		{"libvirt.LibvirtDriver", "", ""},
		{"fake.FakeDriver", options, ""},
	} {
		driver, want := c.driver, c.want
		file := filepath.Join(t.TempDir(), "agent.conf")
		text := "[DEFAULT]\nhost = one\ncompute_driver = " + driver + "\n[libvirt]\n" + c.options
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

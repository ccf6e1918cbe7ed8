package settings

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A host whose libvirt accepts no connections of others is named with the commands that repair it. That is a warning
// only where options are for moves; a host of another driver needs none.
func TestCheckMoves(t *testing.T) {
	const options = "live_migration_inbound_addr = 127.0.0.1\nlive_migration_uri = qemu+tls://%s:1/system?pkipath=/none\n"
	const repair = "systemctl enable --now libvirtd-tls.socket"
	for _, c := range []struct{ driver, options, level, want string }{
		{"libvirt.LibvirtDriver", options, LevelWarning, repair},
		{"libvirt.LibvirtDriver", "", LevelInfo, repair},
		{"fake.FakeDriver", options, "", ""},
	} {
		driver, want := c.driver, c.want
		file := filepath.Join(t.TempDir(), "agent.conf")
		text := "[DEFAULT]\nhost = localhost\ncompute_driver = " + driver + "\n[libvirt]\n" + c.options
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, faults, err := readAll(slog.New(slog.DiscardHandler), file)
		if err != nil || len(faults) > 0 {
			t.Fatal(err, faults)
		}
		var report CheckReport
		report.checkMoves(t.Context(), &s)
		if want == "" && len(report.Findings) == 0 {
			continue
		}
		if len(report.Findings) != 1 || report.Findings[0].Level != c.level ||
			!strings.Contains(report.Findings[0].Sentence, want) {
			t.Errorf("%s, %q: %+v", driver, c.options, report.Findings)
		}
	}
}

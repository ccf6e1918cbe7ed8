package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/internal/upgrade"
)

// TestUpgradeCheck checks the state of a running cloud, with a configuration that has an unknown option, and one that
// is not valid.
func TestUpgradeCheck(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	dir, file := t.TempDir(), conf(t, machine(t, 1, 1))
	d := up(t, file, dir)
	extra := filepath.Join(t.TempDir(), "extra.conf")
	must(t, os.WriteFile(extra, []byte("[berth]\nrescan_intervall = 3\n"), 0o600))
	args := []string{"upgrade", "check", "--config-file", file, "--config-file", extra, "--data-dir", dir}
	stdout, stderr, status := output(t, args...)
	for _, want := range []string{"compute: " + dir, "journal: " + dir, "extra.conf:2", "rescan_interval\"",
		"(berth) uses compute: ", ", this build\n", "\nready for an upgrade"} {
		if status != 0 || !strings.Contains(stdout, want) {
			t.Errorf("status %d, no %q: %s%s", status, want, stdout, stderr)
		}
	}
	stdout, _, status = output(t, append(args, "-o", "json")...)
	var report upgrade.Report
	must(t, json.Unmarshal([]byte(stdout), &report))
	if status != 0 || !report.Ready || len(report.Processes) < 4 || report.Space.Needed == 0 {
		t.Errorf("status %d: %s", status, stdout)
	}
	must(t, os.WriteFile(extra, []byte("[berth]\nrescan_interval = often\n"), 0o600))
	stdout, stderr, status = output(t, args...)
	if status != statusFailed || !strings.Contains(stdout, "extra.conf:2") || !strings.Contains(stderr, "not ready") {
		t.Errorf("status %d: %s%s", status, stdout, stderr)
	}
	for line := range strings.Lines(guideBlocks(t, "upgrade")[0]) {
		line = strings.NewReplacer("berth.conf", file, "--data-dir data", "--data-dir "+dir, "/srv/backup", t.TempDir()).
			Replace(strings.TrimPrefix(line, "./berth "))
		stdout, stderr, status = output(t, strings.Fields(line)...)
		if status != 0 || !strings.Contains(stdout, "ready") {
			t.Errorf("%s: status %d: %s%s", line, status, stdout, stderr)
		}
	}
	_, stderr, status = output(t, "upgrade", "check", "--data-dir", t.TempDir())
	if status != statusFailed || !strings.Contains(stderr, "no state of Berth") {
		t.Errorf("status %d: %s", status, stderr)
	}
	d.stop(t)
}

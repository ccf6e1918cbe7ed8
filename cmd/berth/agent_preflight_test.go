package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// All errors in a host's configuration files are printed at once.
func TestAgentPreflightPrintsAllConfigurationErrors(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "wrong.conf")
	if err := os.WriteFile(path, []byte("[pci]\ndevice_spec = {\"vendor\": \"8086\"}\nreport_in_placement = "+
		"perhaps\n[berth]\nrescan_interval = -1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, stderr, status := output(t, "agent", "preflight", "--config-file", path, "--data-dir", t.TempDir())
	for _, word := range []string{"3 things are in the way", "wrong.conf:2", "wrong.conf:3", "wrong.conf:5"} {
		if status != statusFailed || !strings.Contains(stderr, word) {
			t.Errorf("status %d, without %q:\n%s", status, word, stderr)
		}
	}
}

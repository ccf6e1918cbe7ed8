package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// db version names the database, and creates neither the data directory nor a database.
func TestPlacementDBVersionCreatesNothing(t *testing.T) {
	t.Parallel()
	path, dir := conf(t, machine(t, 1, 1)), filepath.Join(t.TempDir(), "data")
	args := []string{"--config-file", path, "--data-dir", dir}
	_, stderr, status := output(t, append([]string{"placement", "db", "version"}, args...)...)
	if status != 1 || !strings.Contains(stderr, dir) || !strings.Contains(stderr, "berth placement db sync") {
		t.Errorf("status %d: %s", status, stderr)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the data directory exists: %v", err)
	}
	expect(t, 0, "created the schema", append([]string{"placement", "db", "sync"}, args...)...)
	stdout, stderr, status := output(t, append([]string{"placement", "db", "version"}, args...)...)
	if status != 0 || len(strings.Fields(stdout)) != 1 || !strings.Contains(stderr, "database: SQLite database") ||
		!strings.Contains(stderr, dir) {
		t.Errorf("status %d: %s%s", status, stdout, stderr)
	}
}

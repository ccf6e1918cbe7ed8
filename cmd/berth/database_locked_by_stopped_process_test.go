package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/openberth/berth/internal/testenv"
)

// TestDatabaseLockedByAStoppedProcess checks that Placement does not start while a stopped process has locked its
// database. The error has the process and the remedy; after that it starts.
func TestDatabaseLockedByAStoppedProcess(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	dir := t.TempDir()
	file, path := filepath.Join(dir, "placement.db"), filepath.Join(dir, "placement.conf")
	if err := os.WriteFile(path, []byte("[placement_database]\nconnection = sqlite:///"+file+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	sync := []string{"placement", "db", "sync", "--config-file", path}
	if _, stderr, status := output(t, sync...); status != 0 {
		t.Fatal(stderr)
	}
	testenv.Need(t, "Python")
	const program = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); " +
		"c.execute('BEGIN IMMEDIATE'); c.execute('UPDATE resource_providers SET name = name'); " +
		"print('writing', flush=True); sys.stdin.read()"
	writer := exec.Command("python3", "-c", program, file)
	stdin, err := writer.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := writer.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := writer.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { writer.Wait() })
	t.Cleanup(func() { writer.Process.Kill() }) // first
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != "writing\n" {
		t.Fatalf("%q: %v", line, err)
	}
	if err := writer.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	_, stderr, status := output(t, sync...)
	for _, want := range []string{file + " is locked", fmt.Sprintf("process %d (python3", writer.Process.Pid),
		"which is stopped", fmt.Sprintf("kill -CONT %d", writer.Process.Pid)} {
		if status != 1 || !strings.Contains(stderr, want) {
			t.Errorf("status %d, want %q: %s", status, want, stderr)
		}
	}
	if err := writer.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if _, stderr, status := output(t, sync...); status != 0 {
		t.Error(stderr)
	}
}

package setup

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// TestProcessThatBecomesAnotherProgram checks that a process counts as running at each moment while it calls execve(2),
// in which the kernel has no command line of it.
func TestProcessThatBecomesAnotherProgram(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte(`exec /bin/sh "$0" agent --file x`), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", script, "agent", "--file", "x")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := process{args: []string{"agent", "--file", "x"}, pidFile: filepath.Join(dir, "pid")}
	if err := os.WriteFile(p.pidFile, []byte(strconv.Itoa(cmd.Process.Pid)), 0o600); err != nil {
		t.Fatal(err)
	}
	for n := range 5000 {
		if p.pid() != cmd.Process.Pid {
			t.Errorf("the process does not run, call %d", n)
			break
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _ = cmd.Wait(); p.pid() != 0 { // the error is that it was killed
		t.Error("the process runs after its end")
	}
}

// TestLastError checks that the message of a berth that has ended is found in a log file and in a journal, and that an
// older one is not taken for it.
func TestLastError(t *testing.T) {
	const message = "berth: the name or the password is wrong\n"
	const info = "time=2026-11-30T00:30:49Z level=INFO msg=ready\n"
	for log, want := range map[string]string{
		"": "", info: "", message + info: "", info + message: "the name or the password is wrong",
		message + "berth-agent.service: Main process exited, code=exited, status=1/FAILURE\n" +
			"berth-agent.service: Failed with result 'exit-code'.\n": "the name or the password is wrong",
	} {
		if got := lastError(log); got != want {
			t.Errorf("%q: %q, want %q", log, got, want)
		}
	}
}

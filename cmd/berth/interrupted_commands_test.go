package main

import (
	"encoding/json"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/internal/testenv"
)

// A signal ends a client command whose service does not answer. The exit status names the signal.
func TestSignalEndsClientCommand(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for signal, want := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		cmd := berth(t, "server", "list", "--compute-url", "http://"+l.Addr().String())
		var stdout, stderr testenv.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		conn, err := l.Accept() // the request is on its way, and is never answered
		if err != nil {
			t.Fatal(err)
		}
		interrupt(t, cmd.Process, signal)
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != want {
			t.Errorf("%s: status %d, %v", signal, cmd.ProcessState.ExitCode(), err)
		}
		conn.Close()
		if stdout.String() != "" || !strings.Contains(stderr.String(), "interrupted by signal") {
			t.Errorf("%s: %s%s", signal, &stdout, &stderr)
		}
	}
}

// interrupt sends a signal, and ends the process if it does not end.
func interrupt(t *testing.T, p *os.Process, signal syscall.Signal) {
	t.Helper()
	if err := p.Signal(signal); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(testenv.Patience, func() { _ = p.Kill() })
	t.Cleanup(func() { timer.Stop() })
}

// A command with --wait prints why the server is not done, and after an interruption that the operation continues.
// Standard output stays JSON. A command on several servers tries all, and lists the failures.
func TestWaitingCommands(t *testing.T) {
	testenv.Long(t)
	path, dir := conf(t, machine(t, 1, 2)), t.TempDir()
	p := start(t, []string{"placement"}, "placement", "--config-file", path, "--data-dir", dir, "--listen", "127.0.0.1:0")
	c := start(t, []string{"compute"}, "compute", "--config-file", path, "--data-dir", dir, "--listen", "127.0.0.1:0",
		"--placement-url", p.urls["placement"])
	a := start(t, nil, "agent", "--config-file", path, "--data-dir", dir, "--placement-url", p.urls["placement"],
		"--compute-url", c.urls["compute"])
	t.Setenv("BERTH_COMPUTE_URL", c.urls["compute"])
	t.Setenv("BERTH_PLACEMENT_URL", p.urls["placement"])
	testenv.Until(t, "the agent has reported", func() (bool, error) {
		list, err := c.hosts().Devices(t.Context())
		return len(list) == 2, err
	})
	expect(t, 0, "", "flavor", "create", "f", "--ram", "64")
	stdout, stderr, status := output(t, "server", "create", "web", "--flavor", "f", "--count", "2", "--wait", "-o", "json")
	var list []compute.Server
	if err := json.Unmarshal([]byte(stdout), &list); err != nil || status != 0 || len(list) != 2 ||
		list[0].Status != "ACTIVE" {
		t.Fatalf("status %d, %v: %s", status, err, stdout)
	}
	_ = stderr // a fast cloud may be done before the first poll
	a.kill()
	stdout, stderr, status = output(t, "server", "stop", "web-1", "nope", "web-2")
	if status != 1 || strings.Count(stdout, "requested") != 2 || !strings.Contains(stderr, "nope: no server has the id") ||
		!strings.Contains(stderr, "failed for 1 of 3 servers") {
		t.Errorf("status %d: %s%s", status, stdout, stderr)
	}
	cmd := berth(t, "server", "delete", "web-1", "--wait", "-o", "json")
	var out, errs testenv.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	testenv.Until(t, "a reason is printed", func() bool { return strings.Contains(errs.String(), "web-1: ") })
	interrupt(t, cmd.Process, syscall.SIGINT)
	err := cmd.Wait()
	if cmd.ProcessState.ExitCode() != 130 || out.String() != "" ||
		!strings.Contains(errs.String(), "the operation continues in the service") {
		t.Errorf("%v: %s%s", err, &out, &errs)
	}
	for _, one := range []*daemon{c, p} {
		one.stop(t)
	}
}

// expect runs berth and checks its exit status and a part of its output. It returns standard output.
func expect(t *testing.T, status int, want string, args ...string) string {
	t.Helper()
	stdout, stderr, got := output(t, args...)
	if got != status || !strings.Contains(stdout+stderr, want) {
		t.Errorf("berth %s: status %d, want %d with %q in\n%s%s", strings.Join(args, " "), got, status, want, stdout, stderr)
	}
	return stdout
}

package main

import (
	"bytes"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// asBerth is the environment variable with which the test binary runs as berth, so that tests can start real processes
// without another binary.
const asBerth = "BERTH_TEST_AS_BERTH"

func TestMain(m *testing.M) {
	if os.Getenv(asBerth) == "1" {
		os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// berth returns the command with these arguments, not started.
func berth(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(variable string) bool {
		// the account of the person who runs the tests
		return strings.HasPrefix(variable, "OS_") && !strings.HasPrefix(variable, "OS_PLACEMENT_CONFIG_DIR=")
	}), asBerth+"=1")
	return cmd
}

// output runs berth and returns its output and its exit status.
func output(t *testing.T, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	cmd := berth(t, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

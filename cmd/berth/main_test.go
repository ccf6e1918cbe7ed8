package main

import (
	"bytes"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/openberth/berth/internal/bench"
)

// built is the directory of the program that the tests start.
var built string

func TestMain(m *testing.M) {
	var err error
	if built, err = os.MkdirTemp("", "berth-program"); err != nil {
		panic(err)
	}
	for _, variable := range []string{"BERTH_LISTEN", "BERTH_LISTEN_CONSOLE"} { // of `berth up`, at one time in many tests
		if err := os.Setenv(variable, "127.0.0.1:0"); err != nil {
			panic(err)
		}
	}
	status := m.Run()
	os.RemoveAll(built)
	os.Exit(status)
}

// build builds berth once, with the short times of settings.TestTimes. The processes of the tests run without the race
// detector, which slows them down by a factor of five to ten; the packages' own tests have it.
var build = sync.OnceValues(func() (program string, err error) { return bench.Build(built, "testtimes") })

// program returns the path of berth.
func program(t *testing.T) string {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// berth returns the command with these arguments, not started.
func berth(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(program(t), args...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		// the account of the person who runs the tests
		return strings.HasPrefix(variable, "OS_") && !strings.HasPrefix(variable, "OS_PLACEMENT_CONFIG_DIR=")
	})
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

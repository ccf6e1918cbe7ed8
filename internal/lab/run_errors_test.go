package lab

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
)

// payload creates a payload directory with one script.
func payload(t *testing.T, run string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "run"), []byte(run), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestRunRejectsInvalidArguments tests that invalid arguments are rejected before anything is installed, downloaded
// or booted.
func TestRunRejectsInvalidArguments(t *testing.T) {
	t.Setenv("LAB_CACHE", t.TempDir())
	for name, c := range map[string]struct {
		env, value, dir string
		want            string
	}{
		"no directory":          {dir: "testdata/none", want: "no payload directory testdata/none"},
		"no run":                {dir: "testdata", want: "no executable file testdata/run"},
		"many VFs":              {"VFS", "5", payload(t, ""), "VFS=5: want a number from 0 to 4"},
		"two NICs":              {"NICS", "2", payload(t, ""), "NICS=2: want 1 or nothing"},
		"VFS is not a number":   {"VFS", "1;reboot", payload(t, ""), "VFS=1;reboot: want a number"},
		"no time limit":         {"LAB_TIMEOUT", "0", payload(t, ""), "LAB_TIMEOUT=0: want a number of seconds"},
		"no limit of the start": {"LAB_START", "x", payload(t, ""), "LAB_START=x: want a number of seconds"},
		"no cache":              {"LAB_CACHE", "/dev/null", payload(t, ""), "set LAB_CACHE"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.env != "" {
				t.Setenv(c.env, c.value)
			}
			_, err := Run(t.Context(), c.dir)
			if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want unavailable with %q", err, c.want)
			}
		})
	}
}

// TestRunNamesMissingPackages tests that without the programs and without apt-get the error contains the packages to
// install.
func TestRunNamesMissingPackages(t *testing.T) {
	bin := t.TempDir()
	for _, tool := range []string{"bash", "mkdir", "mktemp", "rm", "flock", "grep", "cat"} {
		for _, dir := range []string{"/usr/bin/", "/bin/"} {
			if _, err := os.Stat(dir + tool); err == nil {
				if err := os.Symlink(dir+tool, filepath.Join(bin, tool)); err != nil {
					t.Fatal(err)
				}
				break
			}
		}
	}
	if err := os.WriteFile(filepath.Join(bin, "uname"), []byte("#!/bin/sh\necho x86_64\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	t.Setenv("LAB_CACHE", t.TempDir())
	_, err := Run(t.Context(), payload(t, ""))
	want := "missing here: qemu-system-x86 busybox-static cpio (names of Debian's packages), and there is no apt-get"
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

// TestRunReturnsCauseOfContext tests that the error of an ended context is its cause.
func TestRunReturnsCauseOfContext(t *testing.T) {
	stop := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	if _, err := Run(ctx, payload(t, "")); !errors.Is(err, stop) {
		t.Errorf("got %v, want %v", err, stop)
	}
}

package main

import (
	"runtime"
	"strings"
	"testing"
)

func TestVersion(t *testing.T) {
	stdout, stderr, status := output(t, "--version")
	if status != 0 || !strings.HasPrefix(stdout, "berth ") || !strings.Contains(stdout, runtime.Version()) ||
		stderr != "" {
		t.Errorf("status %d: %q %q", status, stdout, stderr)
	}
}

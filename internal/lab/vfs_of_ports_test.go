//go:build lab

package lab

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestVFsOfPorts runs the tests of package vfguest in the lab, on VFs that are network interfaces.
func TestVFsOfPorts(t *testing.T) {
	dir := payload(t, "#!/bin/sh\nexec ./vfguest.test -test.v -test.timeout 14m\n")
	buildBerth(t, dir)
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-tags", "lab", "-o", filepath.Join(dir, "vfguest.test"),
		"./vfguest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go test -c ./vfguest: %v\n%s", err, out)
	}
	t.Setenv("NICS", "1")
	if os.Getenv("LAB_TIMEOUT") == "" {
		t.Setenv("LAB_TIMEOUT", "900") // an emulated CPU is slow
	}
	t.Log("\n" + run(t, dir))
}

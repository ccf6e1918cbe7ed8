//go:build lab || nested

package lab

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// run boots the lab with a payload that must succeed, with variables of Run, and returns its output.
func run(t *testing.T, dir string, variables ...string) string {
	t.Helper()
	output, err := Run(t.Context(), dir, variables...)
	if err != nil {
		t.Fatalf("%v\noutput:\n%s", err, output)
	}
	return output
}

// buildBerth builds berth into a payload.
func buildBerth(t *testing.T, dir string) {
	t.Helper()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "berth"), "./cmd/berth")
	build.Dir = filepath.Join("..", "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build ./cmd/berth: %v\n%s", err, out)
	}
}

// longLimit returns the variable with the time limit of payloads that compute much: an emulated CPU is slow.
func longLimit() string { return "LAB_TIMEOUT=" + cmp.Or(os.Getenv("LAB_TIMEOUT"), "1800") }

// buildTests builds berth and the tests of package vfguest with a build tag into a payload.
func buildTests(t *testing.T, dir, tag string) {
	t.Helper()
	buildBerth(t, dir)
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-tags", tag, "-o", filepath.Join(dir, "vfguest.test"),
		"./vfguest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go test -c ./vfguest: %v\n%s", err, out)
	}
}

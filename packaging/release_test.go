package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A commit becomes a release only if its tests pass, it has no uncommitted changes, and the changelog has the version.
func TestRelease(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=test", "-c", "user.email=test@localhost"}, args...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	script, err := os.ReadFile("../.ci/release")
	if err != nil {
		t.Fatal(err)
	}
	write(".ci/release", string(script))
	write(".ci/run", "#!/bin/sh\ntrue\n")
	write(".ci/run-long", "#!/bin/sh\ntrue\n")
	write("packaging/main.go", "")
	write("go", "#!/bin/sh\necho \"built $*\"\n")
	write("CHANGELOG.md", "# Changelog\n\n## 0.1.0 (not released yet)\n")
	git("init", "-q", "-b", "main")
	git("add", ".")
	git("commit", "-q", "-m", "first")

	release := func(version string) (string, bool) {
		cmd := exec.Command(filepath.Join(dir, ".ci/release"), version)
		cmd.Env = append(os.Environ(), "GO="+filepath.Join(dir, "go"), "GIT_COMMITTER_NAME=test",
			"GIT_COMMITTER_EMAIL=test@localhost")
		out, err := cmd.CombinedOutput()
		return string(out), err == nil
	}
	refuse := func(version, reason string) {
		t.Helper()
		if out, ok := release(version); ok || !strings.Contains(out, reason) {
			t.Errorf("release %q: %v\n%s\nwant %q", version, ok, out, reason)
		}
	}
	refuse("", "usage")
	refuse("0.1", "usage")
	refuse("0.1.0", "CHANGELOG.md has no heading")
	write("CHANGELOG.md", "# Changelog\n\n## 0.1.0 (2026-12-01)\n")
	refuse("0.1.0", "has changes")
	git("commit", "-q", "-a", "-m", "date")
	write(".ci/run", "#!/bin/sh\necho a test failed\nexit 1\n")
	git("commit", "-q", "-a", "-m", "a failing test")
	refuse("0.1.0", "a test failed")
	if tags := git("tag"); tags != "" {
		t.Fatalf("tagged after failed tests: %s", tags)
	}
	write(".ci/run", "#!/bin/sh\necho changed >>CHANGELOG.md\n")
	git("commit", "-q", "-a", "-m", "a test that changes the tree")
	refuse("0.1.0", "has changed while it was tested")
	git("checkout", "-q", "--", ".")
	write(".ci/run", "#!/bin/sh\ntrue\n")
	git("commit", "-q", "-a", "-m", "passing tests")

	out, ok := release("0.1.0")
	if !ok || !strings.Contains(out, "built run . -out ../dist -version 0.1.0") {
		t.Fatalf("%v\n%s", ok, out)
	}
	if git("rev-parse", "v0.1.0^{commit}") != git("rev-parse", "HEAD") {
		t.Error("another commit is tagged")
	}
	refuse("0.1.0", "the tag v0.1.0 exists")
	write("CHANGELOG.md", "# Changelog\n\n## 0.0.9 (2026-12-01)\n")
	git("commit", "-q", "-a", "-m", "older")
	refuse("0.0.9", "0.0.9 is older than v0.1.0")
}

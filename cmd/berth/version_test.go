package main

import (
	"runtime/debug"
	"strings"
	"testing"
)

// --version prints the commit that the build recorded.
func TestVersion(t *testing.T) {
	t.Parallel()
	info := &debug.BuildInfo{GoVersion: "go1.26", Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{
		{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: "6fdb020c"}, {Key: "vcs.modified", Value: "true"}}}
	if got := versionText(info); got != "berth v1.2.3, commit 6fdb020c, with uncommitted changes, go1.26" {
		t.Error(got)
	}
	info.Settings = nil
	if got := versionText(info); !strings.Contains(got, "commit not recorded") {
		t.Error(got)
	}
	if stdout, stderr, status := output(t, "--version"); status != 0 || stderr != "" ||
		!strings.HasPrefix(stdout, "berth ") || !strings.Contains(stdout, ", commit ") {
		t.Errorf("status %d: %s%s", status, stdout, stderr)
	}
}

// `berth help VERB` prints what `berth VERB --help` prints.
func TestHelp(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"server", "create"}, {}} {
		want, _, _ := output(t, append(args, "--help")...)
		got, stderr, status := output(t, append([]string{"help"}, args...)...)
		if status != 0 || got != want || !strings.Contains(got, "Usage: berth") {
			t.Errorf("%v: status %d: %s%s", args, status, got, stderr)
		}
	}
}

package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Set by the linker when packages are built; empty otherwise.
var release, commit string

type versionCmd struct{}

// Run prints the version.
func (versionCmd) Run(s streams) error {
	_, err := fmt.Fprintln(s.out, version())
	return err
}

// version returns the version of this binary: of its package, or what Go has recorded (see versionText).
func version() string {
	if release != "" {
		return "berth " + release + ", commit " + commit + ", " + runtime.Version()
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "berth, built without module information"
	}
	return versionText(info)
}

// versionText returns the module's version, the commit that the binary was built from, and Go's version.
func versionText(info *debug.BuildInfo) string {
	commit, modified := "not recorded (build it in a git checkout with -buildvcs=true)", ""
	for _, setting := range info.Settings {
		switch {
		case setting.Key == "vcs.revision":
			commit = setting.Value
		case setting.Key == "vcs.modified" && setting.Value == "true":
			modified = ", with uncommitted changes"
		}
	}
	return "berth " + info.Main.Version + ", commit " + commit + modified + ", " + info.GoVersion
}

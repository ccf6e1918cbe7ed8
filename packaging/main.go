// Command packaging builds the release files of a commit: static binaries, packages for Debian and for distributions
// with RPM, an OCI image for each architecture, bills of materials and a source archive. It needs no root and no
// network beside Go's module proxy. The same commit and the same version of Go give the same files, whatever the
// directory and the date.
//
// It is a module of its own, so that its libraries are not dependencies of Berth.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	out := flag.String("out", "dist", "directory of the files; those of an earlier build are removed")
	version := flag.String("version", "", "version of the packages; default: from git")
	arches := flag.String("arch", "amd64,arm64,ppc64le", "Go's names of the architectures, separated by commas")
	kinds := flag.String("kinds", strings.Join(allKinds(), ","), "what to build, separated by commas")
	flag.Parse()
	if err := run(*out, *version, strings.Split(*arches, ","), strings.Split(*kinds, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "packaging:", err)
		os.Exit(1)
	}
}

// allKinds returns the kinds of files.
func allKinds() []string { return []string{"binary", "deb", "rpm", "oci", "sbom", "source"} }

// run builds the files for these architectures into the directory out.
func run(out, version string, arches, kinds []string) error {
	out, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	if err := emptied(out); err != nil {
		return err
	}
	temporary, err := os.MkdirTemp("", "berth-packaging-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	tree, err := export(temporary, version)
	if err != nil {
		return err
	}
	b := build{tree: tree, out: out, temporary: temporary, terms: map[string][]licence{}}
	if err := b.all(arches, kinds); err != nil {
		return err
	}
	return b.sums()
}

// emptied creates a directory, or removes the files of an earlier build from it.
func emptied(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(dir, "berth*"))
	if err != nil {
		return err
	}
	for _, path := range old {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// build builds the files of a tree.
type build struct {
	tree
	out, temporary string
	generated      []generated
	terms          map[string][]licence // of the modules of the binaries, by architecture
}

// settled are variables of Go that change the binary. They replace those of the environment.
var settled = []string{"CGO_ENABLED=0", "GOOS=linux", "GOFLAGS=", "GOEXPERIMENT=", "GOAMD64=v1", "GOARM64=v8.0",
	"GOPPC64=power8", "GOWORK=off"}

// binary builds the static binary for an architecture, and returns its path.
func (b *build) binary(arch string) (string, error) {
	path := filepath.Join(b.temporary, "berth-"+arch)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	_, err := command(b.dir, append(slices.Clone(settled), "GOARCH="+arch), "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags=-s -w -buildid= -X main.release="+b.version+" -X main.commit="+b.commit, "-o", path, "./cmd/berth")
	return path, err
}

// all builds these kinds of files for these architectures.
func (b *build) all(arches, kinds []string) error {
	steps := map[string]func(arch string) error{"binary": b.publish, "deb": b.deb, "rpm": b.rpm, "oci": b.image,
		"sbom": b.bill}
	for _, kind := range kinds {
		if steps[kind] == nil && kind != "source" {
			return fmt.Errorf("-kinds: %q is not a kind of files", kind)
		}
	}
	own, err := b.binary(runtime.GOARCH)
	if err != nil {
		return err
	}
	if err := b.describe(own); err != nil {
		return err
	}
	for _, arch := range arches {
		for _, kind := range kinds {
			if steps[kind] == nil {
				continue
			}
			if err := steps[kind](arch); err != nil {
				return fmt.Errorf("%s for %s: %w", kind, arch, err)
			}
		}
	}
	if slices.Contains(kinds, "source") {
		return b.source()
	}
	return nil
}

// publish copies the binary of an architecture to the directory of the results, with the terms of its modules.
func (b *build) publish(arch string) error {
	path, err := b.binary(arch)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	name := filepath.Join(b.out, "berth_"+b.version+"_linux_"+arch)
	if err := os.WriteFile(name, data, 0o755); err != nil {
		return err
	}
	terms, err := b.notices(arch)
	if err != nil {
		return err
	}
	return os.WriteFile(name+".licences.txt", terms, 0o644)
}

// sums writes SHA256SUMS of all other files of the directory.
func (b *build) sums() error {
	entries, err := os.ReadDir(b.out)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, entry := range entries {
		if entry.Name() == "SHA256SUMS" {
			continue
		}
		data, err := os.ReadFile(filepath.Join(b.out, entry.Name()))
		if err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		text.WriteString(hex.EncodeToString(sum[:]) + "  " + entry.Name() + "\n")
	}
	return os.WriteFile(filepath.Join(b.out, "SHA256SUMS"), []byte(text.String()), 0o644)
}

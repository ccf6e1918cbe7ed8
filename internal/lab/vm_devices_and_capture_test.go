//go:build lab

package lab

import (
	"flag"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/lab-machine-sysfs.txtar from the output of the lab")

// TestKernel boots once and runs two payloads. testdata/check-kernel-devices/run checks that the kernel has the devices
// that run-in-qemu.sh documents, and testdata/capture/run must print what the fixture has.
func TestKernel(t *testing.T) {
	t.Parallel()
	const between = "-- the capture --\n"
	dir := payload(t, "#!/bin/sh\nset -e\n/payload/check-kernel-devices/run\nprintf '"+strings.TrimSpace(between)+
		"\\n'\n/payload/capture/run\n")
	for _, one := range []string{"check-kernel-devices", "capture"} {
		if err := os.CopyFS(filepath.Join(dir, one), os.DirFS(filepath.Join("testdata", one))); err != nil {
			t.Fatal(err)
		}
	}
	checks, capture, both := strings.Cut(run(t, dir), between)
	t.Log("\n" + checks)
	if passed := strings.Count(checks, "ok     "); passed < 60 || !both {
		t.Errorf("%d checks passed, want 60 or more", passed)
	}
	t.Run("capture", func(t *testing.T) { checkCapture(t, capture) })
}

// checkCapture checks that the fixture equals the output of this kernel, except values that depend on the versions of
// kernel and QEMU.
func checkCapture(t *testing.T, output string) {
	const fixture = "testdata/lab-machine-sysfs.txtar"
	if *update {
		if err := os.WriteFile(fixture, []byte(output), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(fixture)
	if err != nil {
		t.Fatal(err)
	}
	got, want := stable(parse(t, []byte(output))), stable(parse(t, data))
	for name, fact := range want {
		if got[name] != fact {
			t.Errorf("%s: the lab has %q, %s has %q (go test -tags lab -run Kernel ./internal/lab -update)", name,
				got[name], fixture, fact)
		}
		delete(got, name)
	}
	for name := range maps.Keys(got) {
		t.Errorf("%s: in the lab, not in %s (go test -tags lab -run Kernel ./internal/lab -update)", name, fixture)
	}
}

// stable returns the files and links without values that another version of kernel or QEMU changes: numbers of IOMMU
// groups, revisions, and the memory that the kernel reserves.
func stable(m machine) map[string]string {
	facts := map[string]string{}
	for link, target := range m.links {
		if path.Base(link) == "iommu_group" {
			target = path.Dir(target)
		}
		facts[link] = target
	}
	for file, content := range m.files {
		if base := path.Base(file); base != "revision" && base != "meminfo" {
			facts[file] = content
		}
	}
	return facts
}

//go:build lab

package lab

import (
	"errors"
	"flag"
	"maps"
	"os"
	"os/exec"
	"path"
	"strconv"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
)

var update = flag.Bool("update", false, "write testdata/lab.txtar from the output of the lab")

// run boots the lab with a payload that must succeed, and returns its output.
func run(t *testing.T, dir string) string {
	t.Helper()
	output, err := Run(t.Context(), dir)
	if err != nil {
		t.Fatalf("%v\noutput:\n%s", err, output)
	}
	return output
}

// TestKernel tests that the kernel has the devices that boot.sh documents; testdata/kernel/run checks the details.
func TestKernel(t *testing.T) {
	t.Parallel()
	output := run(t, "testdata/kernel")
	t.Log("\n" + output)
	if passed := strings.Count(output, "ok     "); passed < 60 {
		t.Errorf("%d checks passed, want 60 or more", passed)
	}
}

// TestCaptureMatchesFixture tests that the fixture equals the output of this kernel, except values that depend on
// the versions of kernel and QEMU.
func TestCaptureMatchesFixture(t *testing.T) {
	t.Parallel()
	const fixture = "testdata/lab.txtar"
	output := run(t, "testdata/capture")
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
			t.Errorf("%s: the lab has %q, %s has %q (go test -tags lab -run Capture ./internal/lab -update)", name, got[name],
				fixture, fact)
		}
		delete(got, name)
	}
	for name := range maps.Keys(got) {
		t.Errorf("%s: in the lab, not in %s (go test -tags lab -run Capture ./internal/lab -update)", name, fixture)
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

// TestRunReturnsStatusAndOutput tests that Run returns the status and the unchanged output of the payload, and that
// VFS sets the number of VFs.
func TestRunReturnsStatusAndOutput(t *testing.T) {
	t.Setenv("VFS", "2")
	output, err := Run(t.Context(), payload(t, `#!/bin/sh
cat /sys/bus/pci/devices/*/sriov_numvfs
printf 'a\r\nb\t\001\377\n'
echo "to stderr" >&2
seq 1 30000
exit 7
`))
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 7 || !fault.Is(err, fault.Internal) {
		t.Errorf("got error %v, want one with status 7", err)
	}
	var want strings.Builder
	want.WriteString("2\n2\na\r\nb\t\001\377\nto stderr\n")
	for n := range 30000 {
		want.WriteString(strconv.Itoa(n+1) + "\n")
	}
	if output != want.String() {
		t.Errorf("%d bytes of output that begin with %.80q, want %d bytes that begin with %.80q",
			len(output), output, want.Len(), want.String())
	}
}

// TestRunStopsGuestAfterTimeout tests that a guest which does not end is switched off, and that the error contains
// the reason.
func TestRunStopsGuestAfterTimeout(t *testing.T) {
	t.Setenv("LAB_TIMEOUT", "3")
	_, err := Run(t.Context(), payload(t, "#!/bin/sh\nsleep 1000\n"))
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "not done after 3 s") {
		t.Errorf("got %v, want unavailable, not done after 3 s", err)
	}
}

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

var update = flag.Bool("update", false, "write testdata/lab.txtar from what the lab shows now")

// run boots the lab with a payload that must end well, and returns what it printed.
func run(t *testing.T, dir string) string {
	t.Helper()
	output, err := Run(t.Context(), dir)
	if err != nil {
		t.Fatalf("%v\noutput:\n%s", err, output)
	}
	return output
}

// The kernel has what boot.sh promises; testdata/kernel/run says in detail what that is.
func TestKernel(t *testing.T) {
	t.Parallel()
	output := run(t, "testdata/kernel")
	t.Log("\n" + output)
	if kept := strings.Count(output, "ok     "); kept < 60 {
		t.Errorf("%d promises looked at, want 60 or more", kept)
	}
}

// The fixture that other packages' tests read is what this kernel shows, in everything that the lab decides.
func TestCapture(t *testing.T) {
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
	got, want := decided(parse(t, []byte(output))), decided(parse(t, data))
	for name, fact := range want {
		if got[name] != fact {
			t.Errorf("%s: the lab shows %q, %s has %q (go test -tags lab -run Capture ./internal/lab -update)", name, got[name],
				fixture, fact)
		}
		delete(got, name)
	}
	for name := range maps.Keys(got) {
		t.Errorf("%s: in the lab, not in %s (go test -tags lab -run Capture ./internal/lab -update)", name, fixture)
	}
}

// decided leaves out what another version of kernel or QEMU may show otherwise: numbers of IOMMU groups, revisions, and
// how much memory the kernel keeps for itself.
func decided(m machine) map[string]string {
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

// A payload's status, and every byte of its output, come out of the guest as they were; VFS says how many VFs there
// are.
func TestStatus(t *testing.T) {
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

// A guest that does not end is switched off in time, the reason is said and its console shown.
func TestTimeout(t *testing.T) {
	t.Setenv("LAB_TIMEOUT", "3")
	_, err := Run(t.Context(), payload(t, "#!/bin/sh\nsleep 1000\n"))
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "not done after 3 s") {
		t.Errorf("got %v, want unavailable, not done after 3 s", err)
	}
}

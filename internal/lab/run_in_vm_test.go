//go:build lab

package lab

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
)

// TestRunReturnsStatusAndOutput tests that Run returns the status and the unchanged output of the payload, and that
// VFS sets the number of VFs.
func TestRunReturnsStatusAndOutput(t *testing.T) {
	t.Parallel()
	output, err := Run(t.Context(), payload(t, `#!/bin/sh
cat /sys/bus/pci/devices/*/sriov_numvfs
printf 'a\r\nb\t\001\377\n'
echo "to stderr" >&2
seq 1 30000
exit 7
`), "VFS=2")
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

// TestGuestThatDoesNotStart tests that a guest whose payload does not run in time is started once more.
func TestGuestThatDoesNotStart(t *testing.T) {
	t.Parallel()
	run := exec.Command("bash", "-c", boot, "run-in-qemu.sh", payload(t, "#!/bin/sh\necho up\n"))
	run.Env = append(os.Environ(), "LAB_START=1")
	var stderr strings.Builder
	run.Stderr = &stderr
	out, err := run.Output()
	if err != nil || string(out) != "up\n" ||
		!strings.Contains(stderr.String(), "not up after 1 s; it is started once more") {
		t.Errorf("%v: %q\n%s", err, out, stderr.String())
	}
}

// TestRunStopsGuestAfterTimeout tests that a guest which does not end is switched off, and that the error contains
// the reason.
func TestRunStopsGuestAfterTimeout(t *testing.T) {
	t.Parallel()
	_, err := Run(t.Context(), payload(t, "#!/bin/sh\nsleep 1000\n"), "LAB_TIMEOUT=3")
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "not done after 3 s") {
		t.Errorf("got %v, want unavailable, not done after 3 s", err)
	}
}

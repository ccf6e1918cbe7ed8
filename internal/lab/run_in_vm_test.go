//go:build lab

package lab

import (
	"errors"
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

// TestRunStopsGuestAfterTimeout tests that a guest which does not end is switched off, and that the error contains
// the reason.
func TestRunStopsGuestAfterTimeout(t *testing.T) {
	t.Setenv("LAB_TIMEOUT", "3")
	_, err := Run(t.Context(), payload(t, "#!/bin/sh\nsleep 1000\n"))
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "not done after 3 s") {
		t.Errorf("got %v, want unavailable, not done after 3 s", err)
	}
}

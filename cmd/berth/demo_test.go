package main

import (
	"strings"
	"testing"

	"github.com/openberth/berth/internal/testenv"
)

// The tour succeeds on a captured machine and on this machine.
func TestDemo(t *testing.T) {
	testenv.Long(t)
	for _, args := range [][]string{{"demo"}, {"demo", "--sysfs", machine(t, 2, 3)}} {
		stdout, stderr, status := output(t, args...)
		if status != 0 {
			t.Fatalf("berth %v: status %d\n%s%s", args, status, stdout, stderr)
		}
		for _, want := range []string{"COMPUTE_MANAGED_PCI_DEVICE", "first", "A race", "its plan: ",
			"usages in Placement are 0", "Every step of the tour succeeded"} {
			if !strings.Contains(stdout, want) {
				t.Errorf("berth %v does not print %q:\n%s", args, want, stdout)
			}
		}
	}
	if _, stderr, status := output(t, "demo", "--sysfs", machine(t, 1, 0)); status != 1 || !strings.Contains(stderr,
		"fewer than 2") {
		t.Errorf("status %d: %s", status, stderr)
	}
}

// On a machine without devices the tour uses a captured one and prints that.
func TestDemoOnAMachineWithoutDevices(t *testing.T) {
	var out strings.Builder
	sample, list, err := devices(&out, machine(t, 1, 0), true)
	if err != nil || !sample || len(list) < 10 || !strings.Contains(out.String(),
		"CAPTURED machine instead, not this one") {
		t.Errorf("%v %v %d devices: %s", sample, err, len(list), out.String())
	}
}

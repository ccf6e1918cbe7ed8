package main

import (
	"strings"
	"testing"
)

// A device command with an address alone names the host as the missing argument; with a host alone, the address.
func TestDeviceCommandsNameTheMissingArgument(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"show", "clean"} {
		for argument, want := range map[string]string{
			"0000:10:00.1": "the host of 0000:10:00.1 is missing; use `berth device " + command + " HOST 0000:10:00.1`",
			"cmp1":         "an argument is missing: <address>",
		} {
			stdout, stderr, status := output(t, "device", command, argument)
			if status == 0 || !strings.Contains(stdout+stderr, want) {
				t.Errorf("berth device %s %s: status %d, want %q in\n%s%s", command, argument, status, want, stdout, stderr)
			}
		}
	}
}

//go:build lab

package lab

import "testing"

// TestVFsOfPorts runs the tests of package vfguest in the lab, on VFs that are network interfaces.
func TestVFsOfPorts(t *testing.T) {
	t.Parallel()
	// GOMAXPROCS as in testdata/berth-scenarios/run.
	dir := payload(t, "#!/bin/sh\nGOMAXPROCS=1 exec ./vfguest.test -test.v -test.timeout 28m\n")
	buildTests(t, dir, "lab")
	t.Log("\n" + run(t, dir, "NICS=1", longLimit()))
}

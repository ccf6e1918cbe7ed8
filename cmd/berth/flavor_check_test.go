package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/internal/testenv"
)

// berth flavor check finds each mistake that it promises to find, in extra specs and in flavors, and counts the hosts
// that could have such a server now.
func TestFlavorCheck_C1_C2_C3_C4_C6(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	f := newPowerVMFleet(t)
	check := func(status int, specs []string, parts ...string) {
		t.Helper()
		args := []string{"flavor", "check"}
		for _, s := range specs {
			if strings.Contains(s, "=") {
				s = "--property=" + s
			}
			args = append(args, s)
		}
		stdout, stderr, got := output(t, f.args(args...)...)
		if got != status {
			t.Errorf("%v: status %d, want %d\n%s%s", specs, got, status, stdout, stderr)
		}
		for _, part := range parts {
			if !strings.Contains(columns.ReplaceAllString(stdout+stderr, " | "), part) {
				t.Errorf("%v: no %q in\n%s%s", specs, part, stdout, stderr)
			}
		}
	}
	// The first two columns are the flavor and the number of hosts.
	const gpu, slot = "resources1:CUSTOM_GPU=1", "trait1:CUSTOM_POWERVM_IOSLOT_"
	check(0, []string{gpu, slot + "VENDOR_ID_10DE=required", slot + "DRC_NAME_U1_P1_C2=required"}, "\n- | 1 | -\n")
	check(0, []string{gpu, slot + "DEVICE_ID_1DB1=required", "resources2:CUSTOM_GPU=1",
		"trait2:CUSTOM_POWERVM_IOSLOT_DRC_INDEX_21010011=required", "group_policy=isolate"}, "\n- | 1 | -\n")
	check(1, []string{gpu, "traits1:CUSTOM_POWERVM_IOSLOT_VENDOR_ID_10DE=required"},
		"write trait1:CUSTOM_POWERVM_IOSLOT_VENDOR_ID_10DE")
	check(1, []string{gpu, slot + "PRODUCT_ID_1DB1=required"}, "CUSTOM_POWERVM_IOSLOT_DEVICE_ID_1DB1",
		"findings in flavors")
	check(1, []string{gpu, slot + "VENDOR_ID_G00D=required"}, `"G00D" is not hexadecimal`)
	check(1, []string{gpu, slot + "CLASS_030200=required"}, "has 6 digits")
	check(1, []string{gpu, slot + "DRC_NAME_CUSTOM_U1_P1_C2=required"}, "write CUSTOM_POWERVM_IOSLOT_DRC_NAME_U1_P1_C2")
	check(1, []string{gpu, "resources2:CUSTOM_GPU=1"}, "group_policy: it is missing")
	check(1, []string{gpu, "resources2:CUSTOM_GPU=1", "group_policy=strict"},
		`group_policy: the value "strict" is not valid`)
	check(1, []string{"resources1:CUSTOM_GPUS=1"}, "Placement has no resource class CUSTOM_GPUS, so no host "+
		"offers it; did you mean CUSTOM_GPU?")
	check(1, []string{gpu, slot + "VENDOR_ID_10DF=required"},
		"Placement has no trait CUSTOM_POWERVM_IOSLOT_VENDOR_ID_10DF")
	check(1, []string{gpu, "trait1:CUSTOM_=required"}, "no trait CUSTOM_,")
	check(1, []string{gpu, "trait2:CUSTOM_FAST=required"}, `the group "2" has no resources`)
	check(1, []string{gpu, "trait1:HW_CPU_X86_VMX=yes"}, "write required or forbidden")

	all := f.gpus(4)
	check(0, nil, "\n4 GPUs | 1 | -\n")
	made, err := f.compute.compute().CreateServer(t.Context(), compute.CreateServer{Name: "a", Flavor: f.gpus(1)})
	must(t, err)
	f.compute.untilActive(t, made.ID)
	check(0, []string{all}, "\n4 GPUs | 0 | ", "asks 4, 3 of 4 free")
	check(0, []string{"1 GPUs"}, "\n1 GPUs | 1 | -\n")
	must(t, f.compute.compute().SetExtraSpecs(t.Context(), all, map[string]string{"trait1:CUSTOM_FAST": "required"}))
	check(1, nil, "\n4 GPUs | 0 | trait1:CUSTOM_FAST: Placement has no trait CUSTOM_FAST", "findings in flavors: 1")
	// Compute refuses a flavor with a group that has no resources.
	_, stderr, status := output(t, f.args("flavor", "set", all, "--property=traits1:CUSTOM_FAST=required")...)
	if status == 0 || !strings.Contains(stderr, "write trait1: without s") {
		t.Errorf("status %d: %s", status, stderr)
	}
}

// columns matches what separates columns of a table.
var columns = regexp.MustCompile("  +")

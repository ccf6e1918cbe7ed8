package app

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/cli"
	"github.com/openberth/berth/internal/testenv"
)

// A device is disabled and enabled by the command line, with Placement, scheduler and agent, over a restart of all; a
// device that fails the operator's program is disabled until it passes.
func TestDisabledDevicesWithPlacement(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	l := newLab(t)
	_, plain := sampleProducts(t)
	_, address, _ := strings.Cut(plain, " ")
	program, broken := filepath.Join(l.dir, "check-device"), filepath.Join(l.dir, "broken")
	if err := os.WriteFile(program, []byte("#!/bin/sh\ntest -e "+broken+" || exit 0\necho XID 79 of $1\nexit 1\n"),
		0o700); err != nil {
		t.Fatal(err)
	}
	options := `
[berth]
device_health_command = ` + program + `
device_health_interval = 1
[pci]
report_in_placement = true
device_spec = {"address":"` + address + `","resource_class":"gpu"}
alias = {"name":"gpu","resource_class":"gpu"}
[filter_scheduler]
pci_in_placement = true
`
	l.up(options)
	defer func() { l.down() }()
	var out bytes.Buffer
	globals := func() *cli.Globals {
		out.Reset()
		return &cli.Globals{ComputeURL: "http://compute", HTTP: rest.InMemory(l.cloud.Compute.Handler), Token: "admin",
			Stdout: &out}
	}
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	listed := func(pattern string) { // Placement has what the agent reports a moment later
		t.Helper()
		l.until("the list has "+pattern, func() bool {
			ok((&cli.DeviceListCmd{}).Run(globals()))
			return regexp.MustCompile(pattern).MatchString(out.String())
		})
	}
	reserved := func() int {
		return l.provider("cmp1_" + strings.ToUpper(address)).Inventories["CUSTOM_GPU"].Reserved
	}
	disable := cli.DeviceDisableCmd{Host: "cmp1", Address: address, Reason: "its fan fails", Until: "24h",
		Wait: time.Minute}
	enable := cli.DeviceEnableCmd{Host: "cmp1", Address: address, Wait: time.Minute}
	gpu := map[string]string{"pci_passthrough:alias": "gpu:1"}

	first := l.boot("first", "ACTIVE", gpu)
	l.boot("bystander", "ACTIVE", nil)
	ok(disable.Run(globals()))
	if !strings.Contains(out.String(), "held by first") || !strings.Contains(out.String(), "--device "+address) {
		t.Errorf("%s", &out)
	}
	listed(`allocated, disabled .*first .*its fan fails, until \d{4}-`)
	drain := cli.HostDrainCmd{Host: "cmp1", Device: address, Plan: true}
	if err := drain.Run(globals()); err == nil || !strings.Contains(out.String(), "first") ||
		strings.Contains(out.String(), "bystander") {
		t.Errorf("a plan without another host: %v\n%s", err, &out)
	}
	l.delete(first.ID)
	l.until("it is reserved", func() bool { return reserved() == 1 })
	l.boot("second", "ERROR", gpu)
	l.down()
	l.up(options)
	l.until("it is still reserved", func() bool { return reserved() == 1 })
	l.boot("third", "ERROR", gpu)
	ok(enable.Run(globals()))
	l.until("it is offered", func() bool { return reserved() == 0 })
	l.delete(l.boot("fourth", "ACTIVE", gpu).ID)

	if err := os.WriteFile(broken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l.until("it is disabled", func() bool { return reserved() == 1 })
	listed(`available, disabled .*health check: .*XID 79 of ` + address)
	if err := enable.Run(globals()); err == nil || !strings.Contains(err.Error(), "stays disabled") ||
		!strings.Contains(err.Error(), "XID 79") {
		t.Errorf("enabled though it fails: %v", err)
	}
	if err := os.Remove(broken); err != nil {
		t.Fatal(err)
	}
	ok(enable.Run(globals()))
	l.until("it is offered again", func() bool { return reserved() == 0 })
	l.boot("fifth", "ACTIVE", gpu)

	unknown := disable
	unknown.Address = "0000:99:00.0"
	if err := unknown.Run(globals()); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("it offers %s", address)) {
		t.Errorf("an unknown device: %v", err)
	}
	unknown.Until = "soon"
	if err := unknown.Run(globals()); err == nil || !strings.Contains(err.Error(), "--until") {
		t.Errorf("a wrong time: %v", err)
	}
}

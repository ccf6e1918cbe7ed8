package app

import (
	"bytes"
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

// A device for one-time use, with Placement, scheduler and command line: it is used once, not allocated again, cleaned
// by the operator's program, and used again.
func TestOneTimeUseWithPlacement(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	l := newLab(t)
	_, plain := sampleProducts(t)
	_, address, _ := strings.Cut(plain, " ")
	program := filepath.Join(l.dir, "clean-device")
	if err := os.WriteFile(program,
		[]byte("#!/bin/sh\ntest -e "+l.dir+"/wiper || { echo the wiper is out of order; exit 1; }\necho $1 >> "+l.dir+
			"/cleaned\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	l.up(`
[berth]
device_clean_command = ` + program + `
[pci]
report_in_placement = true
device_spec = {"address":"` + address + `","resource_class":"gpu","one_time_use":true}
alias = {"name":"gpu","resource_class":"gpu"}
[filter_scheduler]
pci_in_placement = true
`)
	defer l.down()
	name := "cmp1_" + strings.ToUpper(address)
	gpu := map[string]string{"pci_passthrough:alias": "gpu:1"}
	s := l.boot("first", "ACTIVE", gpu)
	l.until("it is reserved", func() bool { return l.provider(name).Inventories["CUSTOM_GPU"].Reserved == 1 })
	l.delete(s.ID)
	l.boot("second", "ERROR", gpu)
	var out bytes.Buffer
	globals := &cli.Globals{ComputeURL: "http://compute", HTTP: rest.InMemory(l.cloud.Compute.Handler), Token: "admin",
		Stdout: &out}
	clean := cli.DeviceCleanCmd{Host: "cmp1", Address: address, Wait: time.Minute}
	if err := clean.Run(globals); err == nil || !strings.Contains(err.Error(), "the wiper is out of order") {
		t.Errorf("cleaned: %v", err)
	}
	if err := (&cli.DeviceListCmd{}).Run(globals); err != nil || !strings.Contains(out.String(),
		"available, spent, not cleaned") {
		t.Errorf("%v\n%s", err, &out)
	}
	out.Reset()
	if err := (&cli.DeviceShowCmd{Host: "cmp1", Address: address}).Run(globals); err != nil ||
		!regexp.MustCompile(`(?m)^cleaning refused .*the wiper is out of order`).MatchString(out.String()) {
		t.Errorf("%v\n%s", err, &out)
	}
	out.Reset()
	if err := os.WriteFile(filepath.Join(l.dir, "wiper"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := clean.Run(globals); err != nil {
		t.Fatal(err)
	}
	if said, err := os.ReadFile(filepath.Join(l.dir, "cleaned")); err != nil || string(said) != address+"\n" ||
		out.String() != address+" of cmp1 is clean\n" {
		t.Errorf("%q %v %q", said, err, out.String())
	}
	l.until("it is given back", func() bool { return l.provider(name).Inventories["CUSTOM_GPU"].Reserved == 0 })
	l.boot("third", "ACTIVE", gpu)
	l.until("a device is not cleaned under its guest", func() bool {
		err := clean.Run(globals)
		if err == nil {
			t.Error("cleaned under its guest")
		}
		return err == nil || strings.Contains(err.Error(), "held by server")
	})
}

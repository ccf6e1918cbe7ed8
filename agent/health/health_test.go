package health

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/program"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

func TestCheck(t *testing.T) {
	path := filepath.Join(t.TempDir(), "check")
	run := func(script string) *program.Program {
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		return &program.Program{Option: "[berth] device_health_command", Path: path}
	}
	const dir = "bus/pci/devices/0000:3b:00.1/"
	healthy := fstest.MapFS{dir + "aer_dev_fatal": {Data: []byte("TOTAL_ERR_FATAL 1")},
		dir + "aer_dev_nonfatal": {Data: []byte("TOTAL_ERR_NONFATAL 2")}}
	gpu, slot := device.PCI(pci.Address{Bus: 0x3b, Func: 1}), device.PCI(pci.IOSlot(0x1C0FFEE1))
	failed := "the program of [berth] device_health_command: " + path + " ended with exit status 2: XID 79 on 0000:3b:00.1"
	for name, c := range map[string]struct {
		checker Checker
		id      device.ID
		want    Result
	}{
		"all errors":   {Checker{FS: healthy, Errors: AllErrors}, gpu, Result{Counted: true, Fatal: 1, Nonfatal: 2}},
		"fatal errors": {Checker{FS: healthy, Errors: FatalErrors}, gpu, Result{Counted: true, Fatal: 1}},
		"no errors":    {Checker{FS: healthy, Errors: NoErrors}, gpu, Result{}},
		"missing":      {Checker{FS: fstest.MapFS{}, Errors: AllErrors}, gpu, Result{Missing: true}},
		"silent": {Checker{FS: fstest.MapFS{dir + "config": {Data: []byte{0xff, 0xff}}}}, gpu,
			Result{Failed: "it does not answer on PCIe"}},
		"a slot is not in /sys": {Checker{FS: fstest.MapFS{}, Errors: AllErrors}, slot, Result{}},
		"the program fails": {Checker{FS: healthy, Errors: NoErrors,
			Program: run(`echo "XID 79 on $1"; exit 2`)}, gpu, Result{Failed: failed}},
	} {
		if got, err := c.checker.Check(t.Context(), c.id); err != nil || got != c.want {
			t.Errorf("%s: %+v %v, want %+v", name, got, err, c.want)
		}
	}
	if got, err := (Checker{Program: run("exit 0")}).Check(t.Context(), slot); err != nil || got != (Result{}) {
		t.Errorf("%+v %v", got, err)
	}
	nowhere := &program.Program{Option: "[berth] device_health_command", Path: path + "x"}
	if got, err := (Checker{Program: nowhere}).Check(t.Context(), gpu); !fault.Is(err, fault.Invalid) || got.Failed != "" {
		t.Errorf("a program that cannot be run says nothing about the device: %+v %v", got, err)
	}
}

package vflink

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/openberth/berth/agent/vfconfig"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// sysfsTree creates a sysfs with a PF with two VFs, and a VF whose PF has no interface.
func sysfsTree(t *testing.T) string {
	root := t.TempDir()
	devices := filepath.Join(root, "bus", "pci", "devices")
	make := func(path ...string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(path...), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write := func(text string, path ...string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(path...), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := func(to string, path ...string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(path...)); err != nil {
			t.Fatal(err)
		}
	}
	for pf, vfs := range map[string][]string{"0000:12:00.0": {"0000:12:10.0", "0000:12:10.2"},
		"0000:11:00.0": {"0000:11:00.1"}} {
		make(devices, pf)
		for i, vf := range vfs {
			make(devices, vf)
			link("../"+pf, devices, vf, "physfn")
			link("../"+vf, devices, pf, fmt.Sprint("virtfn", i))
		}
	}
	for name, port := range map[string]string{"ens1f0": "p0\n", "ens1f0npf0vf0": "pf0vf0\n", "aaa": "pf0vf1\n"} {
		make(devices, "0000:12:00.0", "net", name)
		write(port, devices, "0000:12:00.0", "net", name, "phys_port_name")
	}
	make(root, "class", "net", "ens1f0")
	write("25000\n", root, "class", "net", "ens1f0", "speed")
	return root
}

func TestFind(t *testing.T) {
	links := Links{Sysfs: sysfsTree(t)}
	for address, want := range map[string]vfconfig.VF{
		"0000:12:10.0": {Address: "0000:12:10.0", Interface: "ens1f0", Index: 0, Speed: 25000},
		"0000:12:10.2": {Address: "0000:12:10.2", Interface: "ens1f0", Index: 1, Speed: 25000},
	} {
		a, err := pci.ParseAddress(address)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := links.Find(a); err != nil || got != want {
			t.Errorf("%s: %+v %v", address, got, err)
		}
	}
	for _, address := range []string{"0000:11:00.1", "0000:12:00.0", "0000:99:00.0"} {
		a, err := pci.ParseAddress(address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := links.Find(a); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestKindsOfKernelErrors(t *testing.T) {
	for errno, want := range map[syscall.Errno]fault.Kind{
		syscall.EOPNOTSUPP: fault.Invalid, syscall.EINVAL: fault.Invalid, syscall.ERANGE: fault.Invalid,
		syscall.EPERM: fault.Forbidden, syscall.EACCES: fault.Forbidden, syscall.ENODEV: fault.NotFound,
		syscall.EBUSY: fault.Unavailable, syscall.EIO: fault.Unavailable,
	} {
		if err := failure("what", errno); !fault.Is(err, want) || !errors.Is(err, errno) {
			t.Errorf("%s: %v", errno, err)
		}
	}
	if _, err := (Links{}).Read(vfconfig.VF{Interface: "none-such0"}); !fault.Is(err, fault.NotFound) {
		t.Errorf("an interface that does not exist: %v", err)
	}
}

package sysfs

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// On a captured machine the VFs of a PF vanish and return, as they were.
func TestSetVFsOfCapturedMachine(t *testing.T) {
	fsys := machine(t, "sample")
	before := read(t, fsys)
	var pf pci.Device
	for _, d := range before.Devices {
		if d.NumVFs > 0 {
			pf = d
			break
		}
	}
	count := func() (vfs int, number int) {
		for _, d := range read(t, fsys).Devices {
			if d.Parent != nil && *d.Parent == pf.Address {
				vfs++
			}
			if d.Address == pf.Address {
				number = d.NumVFs
			}
		}
		return vfs, number
	}
	s := Source{FS: fsys, Name: "sample"}
	set := func(n int) {
		t.Helper()
		if err := s.SetVFs(pf.Address, n); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range []int{0, 0, pf.NumVFs, pf.NumVFs} {
		set(n)
		if vfs, number := count(); vfs != n || number != n {
			t.Errorf("after setting %d the PF has %d VFs, %d by its number", n, vfs, number)
		}
	}
	if after := read(t, fsys); len(after.Devices) != len(before.Devices) || len(after.Problems) > 0 {
		t.Errorf("%d devices, before %d; problems %v", len(after.Devices), len(before.Devices), after.Problems)
	}
	set(pf.NumVFs + 1) // it has some: the operator's number stays
	if vfs, _ := count(); vfs != pf.NumVFs {
		t.Errorf("%d VFs", vfs)
	}
	set(0)
	if err := s.SetVFs(pf.Address, 1); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "has 4 VFs") {
		t.Errorf("another number: %v", err)
	}
	if err := s.SetVFs(pci.Address{Bus: 0xee}, 0); !fault.Is(err, fault.Unavailable) {
		t.Errorf("an unknown PF: %v", err)
	}
}

// In a directory the number is written to the file of the PF, in one write, and only if it changes something.
func TestSetVFsOfDirectory(t *testing.T) {
	dir := t.TempDir()
	pf := pci.Address{Bus: 0x81}
	file := filepath.Join(dir, "bus/pci/devices/0000:81:00.0/sriov_numvfs")
	put := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	s := Source{FS: os.DirFS(dir), Name: dir}
	for _, c := range []struct {
		has  string
		set  int
		want string
	}{{"4\n", 0, "0\n"}, {"0\n", 4, "4\n"}, {"2\n", 4, "2\n"}, {"0\n", 0, "0\n"}} {
		put(c.has)
		err := s.SetVFs(pf, c.set)
		if got, _ := fs.ReadFile(s.FS, "bus/pci/devices/0000:81:00.0/sriov_numvfs"); err != nil || string(got) != c.want {
			t.Errorf("%q set to %d: %q %v", c.has, c.set, got, err)
		}
	}
	if os.Geteuid() == 0 {
		return // root may write everything
	}
	put("4\n")
	if err := os.Chmod(file, 0o400); err != nil {
		t.Fatal(err)
	}
	if err := s.SetVFs(pf, 0); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "as root") {
		t.Errorf("without permission: %v", err)
	}
}

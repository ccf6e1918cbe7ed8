package libvirt

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/hypervisortest"
	"github.com/openberth/berth/agent/hypervisor/libvirt/domainxml"
	"github.com/openberth/berth/internal/libvirtd"
)

// TestDamagedFiles damages the record of a guest and the file with the UUID of the marker: the driver starts, all
// guests that libvirt has are served, a remark names the file, and no disk is removed.
func TestDamagedFiles(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	dir := daemon.GuestDir(t)
	d := openHost(t, daemon, dir)
	must(t, d.Start(t.Context()))
	whole, lost := hypervisortest.Guest("a"), hypervisortest.Guest("b")
	whole.Stopped, lost.Stopped = true, true
	for _, g := range []hypervisor.Guest{whole, lost} {
		must(t, d.Build(t.Context(), g))
	}
	writeMarker(t, d, lost)
	record, marker := d.path(lost.ID, recordName), d.markerPath()
	overwrite := func(text string) func(path string) error {
		return func(path string) error { return os.WriteFile(path, []byte(text), 0o600) }
	}
	directory := func(path string) error { return os.Mkdir(path, 0o700) }
	unreadable := func(path string) error { return os.Symlink(path, path) }
	for _, c := range []struct {
		name, file string
		damage     func(path string) error
		repaired   bool // without the operator
	}{
		{"empty record", record, overwrite(""), false},
		{"garbage as a record", record, overwrite("\x00<gue"), false},
		{"record of nothing", record, overwrite("<guest></guest>"), false},
		{"record with a device without an address", record, overwrite(fmt.Sprintf("<guest xmlns=%q id=%q domain=%q "+
			"made=\"true\" host=\"here\"><device id=\"?\"></device></guest>", domainxml.Namespace, lost.ID, lost.ID)), false},
		{"directory as a record", record, directory, false},
		{"unreadable record", record, unreadable, false},
		{"empty marker", marker, overwrite(""), true}, // as before the first start
		{"garbage as a marker", marker, overwrite("\x00x"), true},
		{"directory as a marker", marker, directory, false},
		{"unreadable marker", marker, unreadable, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			text, err := os.ReadFile(c.file)
			must(t, err)
			must(t, os.Remove(c.file))
			must(t, c.damage(c.file))
			d := openHost(t, daemon, dir)
			must(t, d.Start(t.Context()))
			wantGuests(t, d, whole, lost)
			capacity, err := d.Capacity(t.Context())
			of := slices.ContainsFunc(capacity.Remarks, func(r hypervisor.Remark) bool {
				return r.Subject == c.file && strings.Contains(r.Text, c.file)
			})
			if err != nil || of == c.repaired {
				t.Errorf("remark %q %v", capacity.Remarks.String(), err)
			}
			must(t, d.Build(t.Context(), whole))
			checkMarker(t, d, lost)
			if !c.repaired {
				must(t, os.RemoveAll(c.file))
				must(t, os.WriteFile(c.file, text, 0o600))
			}
		})
	}
	lost.Stopped = false
	must(t, d.Build(t.Context(), lost))
	wantGuests(t, d, whole, lost)
	if files, err := filepath.Glob(d.path("*", "disk-*")); err != nil || len(files) != 2 {
		t.Errorf("disks %v %v", files, err)
	}
}

// openHost returns the driver of a host with a name.
func openHost(t *testing.T, daemon *libvirtd.Daemon, dir string) *Driver {
	t.Helper()
	d, err := New(Options{Socket: daemon.Socket, VirtType: "qemu", Dir: dir, Host: "here"})
	must(t, err)
	t.Cleanup(d.Close)
	return d
}

package libvirt

import (
	"testing"
	"time"

	"github.com/openberth/berth/agent/hypervisor"
)

// TestDiskProgress checks the sentences about a copy, as `berth server why` shows them.
func TestDiskProgress(t *testing.T) {
	var all transfers
	p := all.begin(hypervisor.Guest{ID: "s", DiskFrom: &hypervisor.DiskSource{Host: "a", Guest: "m"}})
	wants := func(want string) {
		t.Helper()
		got := ""
		for _, r := range all.remarks() {
			if got += r.Text; r.Subject != "s" {
				t.Errorf("it concerns %q", r.Subject)
			}
		}
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	wants("the disk of server s is being copied from host a: of unknown size")
	before := p.count()
	p.set(35<<20, 100<<20, false)
	wants("the disk of server s is being copied from host a: 30 of 100 MiB")
	p.fail("the cable is cut")
	wants("the disk of server s is being copied from host a: 30 of 100 MiB; it will be retried: the cable is cut")
	p.set(100<<20, 100<<20, true)
	wants("the disk of server s is being compared with that of host a: 100 of 100 MiB")
	if p.count() == before {
		t.Error("the progress is not counted")
	}
	all.end("s")
	wants("")
}

// TestEarly checks the wait that keeps a copy within a bandwidth.
func TestEarly(t *testing.T) {
	for _, c := range []struct {
		bytes     int64
		after     time.Duration
		bandwidth int
		want      time.Duration
	}{
		{10 << 20, time.Second, 0, 0}, {10 << 20, time.Second, 5, time.Second}, {10 << 20, time.Second, 10, 0},
		{10 << 20, 3 * time.Second, 5, -time.Second},
	} {
		if got := early(c.bytes, c.after, c.bandwidth); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

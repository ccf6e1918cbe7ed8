package libvirt

import (
	"io"
	"testing"

	"github.com/openberth/berth/agent/hypervisor/hypervisortest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/libvirtd"
)

// TestDisplay connects to the VNC server of a guest, and refuses guests that have none or do not run.
func TestDisplay(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	d := open(t, daemon, daemon.GuestDir(t))
	d.o.VNC = true
	g, blind := hypervisortest.Guest("a"), hypervisortest.Guest("b")
	blind.Hardware.Video = "none"
	must(t, d.Build(t.Context(), g))
	must(t, d.Build(t.Context(), blind))
	for range 2 {
		conn, err := d.OpenDisplay(t.Context(), g.ID)
		must(t, err)
		greeting := make([]byte, 12)
		if _, err := io.ReadFull(conn, greeting); err != nil || string(greeting) != "RFB 003.008\n" {
			t.Errorf("%q %v", greeting, err)
		}
		must(t, conn.Close())
	}
	if _, err := d.OpenDisplay(t.Context(), blind.ID); !fault.Is(err, fault.Conflict) {
		t.Errorf("without a video device: %v", err)
	}
	g.Stopped = true
	must(t, d.Build(t.Context(), g))
	if _, err := d.OpenDisplay(t.Context(), g.ID); !fault.Is(err, fault.Conflict) {
		t.Errorf("of a stopped guest: %v", err)
	}
}

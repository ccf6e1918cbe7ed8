package libvirt

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/openberth/berth/agent/hypervisor/hypervisortest"
	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/internal/libvirtd"
)

// TestPausedGuest pauses a guest as an administrator does: the host reports it until the guest continues.
func TestPausedGuest(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	d := open(t, daemon, daemon.GuestDir(t))
	g := hypervisortest.Guest("a")
	must(t, d.Build(t.Context(), g))
	const usual = emulated + "; " + unconfined // the daemon of the tests has no security module
	for _, c := range []struct{ command, want string }{
		{"suspend", "the guest " + g.ID + " is paused: with libvirt"}, {"resume", ""},
	} {
		out, err := exec.Command("virsh", "-c", "qemu+unix:///system?socket="+daemon.Socket, c.command,
			"berth-"+g.ID).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		capacity, err := d.Capacity(t.Context())
		must(t, err)
		want := usual
		if c.want != "" {
			last := capacity.Remarks[len(capacity.Remarks)-1]
			if want += "; " + last.Text; last.Subject != g.ID || !strings.HasPrefix(last.Text, c.want) {
				t.Errorf("after %s: %q, want %q", c.command, last, c.want)
			}
		}
		if got := capacity.Remarks.String(); got != want {
			t.Errorf("after %s: %q", c.command, got)
		}
		wantGuests(t, d, g)
	}
}

func TestPauseOf(t *testing.T) {
	for reason, want := range map[int]string{rpc.PausedByQEMU: "virt_type", rpc.PausedByCrash: "virt_type",
		rpc.PausedByUser: "virsh resume", rpc.PausedByDisk: "disk"} {
		if got := pauseOf(rpc.Paused, reason); !strings.Contains(got, want) {
			t.Errorf("%d: %q", reason, got)
		}
		if got := pauseOf(rpc.Running, reason); got != "" {
			t.Errorf("running, %d: %q", reason, got)
		}
	}
	const migration = 2
	if got := pauseOf(rpc.Paused, migration); got != "" {
		t.Errorf("%q", got)
	}
}

package libvirt

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/hypervisortest"
	"github.com/openberth/berth/agent/hypervisor/libvirt/domainxml"
	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/libvirtd"
)

// unreadElement is accepted by libvirt and refused by encoding/xml: XML 1.0 allows the letter in names since its fifth
// edition, and encoding/xml implements the fourth.
const unreadElement = "<own:ⁿ xmlns:own='https://example.org/own'/>"

// TestUnreadDefinition edits the definition of a guest so that libvirt accepts it and the driver cannot read it. The
// guest stays as it is, with its devices, and a remark says what to do; other guests are served. A domain of another
// program that cannot be read is left alone.
func TestUnreadDefinition(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	dir := daemon.GuestDir(t)
	c := dial(t, daemon)
	g, other := hypervisortest.Guest("a", 1), hypervisortest.Guest("b", 2)
	other.Stopped = true
	defineByHand(t, daemon, "<domain type='qemu'><name>mine</name><metadata>"+unreadElement+"</metadata>"+
		"<memory>65536</memory><os><type>hvm</type></os></domain>")
	for _, e := range []struct {
		name, at, more string
		withMetadata   bool // they can be read with the rest of the definition
	}{
		{"metadata of another program", "</metadata>", unreadElement, false},
		{"value that is too large", "</devices>", "<interface type='user'><bandwidth><inbound average='1' " +
			"peak='18446744073709551615'/></bandwidth></interface>", true},
	} {
		t.Run(e.name, func(t *testing.T) {
			d := open(t, daemon, dir)
			must(t, d.Start(t.Context()))
			must(t, d.Build(t.Context(), other))
			must(t, d.Build(t.Context(), g))
			before, whole := lookup(t, c, g), definition(t, c, g)
			edited := strings.Replace(whole, e.at, e.more+e.at, 1)
			defineByHand(t, daemon, edited)
			if _, err := domainxml.GuestIn(definition(t, c, g)); (err == nil) != e.withMetadata {
				t.Errorf("the metadata: %v", err)
			}
			wantUnread(t, open(t, daemon, dir), g, other)

			served := other
			served.Stopped = false
			must(t, d.Build(t.Context(), served))
			must(t, d.Build(t.Context(), other))
			wantUnchanged(t, d, g)
			if now := lookup(t, c, g); now != before {
				t.Errorf("the guest was changed: %+v, before %+v", now, before)
			}

			must(t, end(t.Context(), c, before))
			if err := d.Build(t.Context(), g); !fault.Is(err, fault.Unavailable) || lookup(t, c, g).ID >= 0 {
				t.Errorf("started: %v", err)
			}
			ended := g
			ended.Stopped = true
			wantUnread(t, d, ended, other)

			defineByHand(t, daemon, whole)
			must(t, d.Build(t.Context(), g))
			wantGuests(t, d, g, other)

			defineByHand(t, daemon, edited)
			must(t, d.Destroy(t.Context(), g.ID))
			wantGuests(t, d, other)
		})
	}
}

// wantUnread checks that a guest whose definition cannot be read is listed with its devices, beside another one.
func wantUnread(t *testing.T, d *Driver, g, other hypervisor.Guest) {
	t.Helper()
	got, err := d.Guests(t.Context())
	if err != nil || len(got) != 2 {
		t.Fatalf("guests %+v %v", got, err)
	}
	for _, words := range []string{"the domain berth-" + g.ID, "line ", "`virsh edit berth-" + g.ID} {
		if !strings.Contains(got[0].Remark, words) {
			t.Errorf("no %q in the remark %q", words, got[0].Remark)
		}
	}
	if got[0].Remark = ""; !reflect.DeepEqual(got, []hypervisor.Guest{g, other}) {
		t.Errorf("guests %+v, want %+v", got, []hypervisor.Guest{g, other})
	}
}

// wantUnchanged checks that nothing changes a running guest whose definition cannot be read, and that its device is not
// given to another one.
func wantUnchanged(t *testing.T, d *Driver, g hypervisor.Guest) {
	t.Helper()
	stopped, rebuilt, plugged := g, g, hypervisortest.Guest("a", 1, 3)
	stopped.Stopped = true
	rebuilt.Build++
	for what, err := range map[string]error{
		"stopped": d.Build(t.Context(), stopped),
		"rebuilt": d.Build(t.Context(), rebuilt),
		"migrated": d.Migrate(t.Context(), g.ID, hypervisor.Destination{Host: hypervisortest.Other,
			Devices: map[device.ID]device.ID{g.Devices[0].ID: g.Devices[0].ID}}),
	} {
		if !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := d.Build(t.Context(), plugged); !fault.Is(err, fault.Conflict) {
		t.Errorf("with a further device: %v", err)
	}
	if err := d.Build(t.Context(), hypervisortest.Guest("c", 1)); !fault.Is(err, fault.Conflict) {
		t.Errorf("its device was given to another guest: %v", err)
	}
	must(t, d.Rename(t.Context(), g.ID, hypervisortest.ID("d"), g.ID)) // as at the end of a move
	must(t, d.Rename(t.Context(), hypervisortest.ID("d"), g.ID, ""))
}

// defineByHand defines a domain as an operator does, who may let `virsh edit` ignore the schema.
func defineByHand(t *testing.T, daemon *libvirtd.Daemon, text string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "domain.xml")
	must(t, os.WriteFile(file, []byte(text), 0o600))
	out, err := exec.CommandContext(t.Context(), "virsh", "-c", "qemu+unix:///system?socket="+daemon.Socket, "define",
		file).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// definition returns the definition of the domain of a guest.
func definition(t *testing.T, c *rpc.Client, g hypervisor.Guest) string {
	t.Helper()
	text, err := c.XML(t.Context(), lookup(t, c, g), rpc.Persistent)
	must(t, err)
	return text
}

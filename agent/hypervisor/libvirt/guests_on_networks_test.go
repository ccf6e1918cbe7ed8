package libvirt

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/openberth/berth/agent/configdrive"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/hypervisortest"
	"github.com/openberth/berth/agent/imagecache"
	"github.com/openberth/berth/internal/libvirtd"
	"github.com/openberth/berth/internal/linuxguest"
	"github.com/openberth/berth/internal/testenv"
)

// A Linux guest with a port on a bridge of Linux answers a ping from the host, at the address and with the MAC address
// of its port, and its interface has the PCI address that the config drive has for its tag. When it is gone, so is its
// interface on the host.
func TestGuestOnLinuxBridge(t *testing.T) {
	t.Parallel()
	n := newNetworkedGuest(t)
	n.inNetwork("ip", "address", "add", "10.0.0.1/24", "dev", libvirtd.Bridge)
	n.guest.Interfaces = []hypervisor.Interface{{Port: hypervisortest.ID("b"), MAC: "fa:16:3e:00:00:01", VIF: "bridge",
		VNIC: "normal", Bridge: libvirtd.Bridge}}
	must(t, n.driver.Build(t.Context(), n.guest))
	n.answersPing()
	n.sameDevice()
	tap := "tap" + hypervisortest.ID("b")[:11]
	if out := n.inNetwork("ip", "link", "show", tap); !strings.Contains(out, "master "+libvirtd.Bridge) {
		t.Errorf("the interface is not on the bridge: %s", out)
	}
	must(t, n.driver.Destroy(t.Context(), n.guest.ID))
	n.wantNoLink(tap)
}

// A Linux guest with a port of the vnic type macvtap answers a ping from the wire. The network interface of its VF is
// one of a veth pair; everything else is real. When the guest is gone, the interface has its own MAC address again.
func TestGuestOnMacvtap(t *testing.T) {
	t.Parallel()
	n := newNetworkedGuest(t)
	n.run(`mkdir /dev/kernel
mount -t devtmpfs kernel /dev/kernel # the kernel makes the device of a macvtap there
for number in $(seq 200); do ln -s "kernel/tap$number" "/dev/tap$number"; done`)
	// The device has the number of the interface. In networks of other runs on this machine it should be another one.
	for range rand.N(40) {
		n.inNetwork("ip", "link", "add", "type", "veth")
	}
	const own = "02:00:00:00:00:01"
	n.inNetwork("ip", "link", "add", "vf0", "address", own, "type", "veth", "peer", "name", "wire")
	n.inNetwork("ip", "address", "add", "10.0.0.1/24", "dev", "wire")
	n.inNetwork("ip", "link", "set", "wire", "up")
	n.inNetwork("ip", "link", "set", "vf0", "up")
	n.guest.Devices = hypervisortest.Guest("a", 1).Devices
	vf := n.guest.Devices[0].ID
	n.driver.o.Sysfs = fstest.MapFS{"bus/pci/devices/" + vf.String() + "/net/vf0/mtu": {Data: []byte("1500")}}
	n.guest.Interfaces = []hypervisor.Interface{{Port: hypervisortest.ID("b"), MAC: "fa:16:3e:00:00:01", VIF: "hw_veb",
		VNIC: "macvtap", Device: vf}}
	must(t, n.driver.Build(t.Context(), n.guest))
	n.answersPing()
	if out := n.inNetwork("ip", "-d", "link", "show", "type", "macvtap"); !strings.Contains(out, "@vf0") ||
		!strings.Contains(out, "mode passthru") {
		t.Errorf("the interface of the VF is not the guest's alone: %s", out)
	}
	must(t, n.driver.Destroy(t.Context(), n.guest.ID))
	if out := n.inNetwork("ip", "link", "show", "vf0"); !strings.Contains(out, own) {
		t.Errorf("the MAC address of the VF: %s", out)
	}
	if out := n.inNetwork("ip", "link", "show", "type", "macvtap"); strings.TrimSpace(out) != "" {
		t.Errorf("the guest is gone, and its interface is not: %s", out)
	}
}

// networkedGuest is a Linux guest that is to have one interface, with the address 10.0.0.5.
type networkedGuest struct {
	t      *testing.T
	daemon *libvirtd.Daemon
	driver *Driver
	guest  hypervisor.Guest
}

func newNetworkedGuest(t *testing.T) *networkedGuest {
	t.Helper()
	daemon := libvirtd.Start(t)
	dir := daemon.GuestDir(t)
	d := open(t, daemon, dir)
	base := filepath.Join(dir, "_base")
	must(t, os.Mkdir(base, 0o711))
	disk := filepath.Join(base, rawImage+".raw")
	must(t, linuxguest.Build(t.Context(), disk))
	must(t, os.Chmod(disk, 0o644))
	d.o.Images = imagecache.New(base, nil, slog.New(slog.DiscardHandler))
	g := hypervisortest.Guest("a")
	g.Image, g.DiskGB, g.VCPUs, g.MemoryMB = rawImage, 1, 1, 256
	d.o.FirstBoot = func(context.Context, string) (configdrive.Server, error) {
		at := configdrive.Address{Method: "static", Address: "10.0.0.5", CIDR: "10.0.0.0/24"}
		return configdrive.Server{ID: g.ID, Name: "networked", UserData: []byte(printDevices),
			Interfaces: []configdrive.Interface{{Port: hypervisortest.ID("b"), Addresses: []configdrive.Address{at},
				Device: configdrive.Device{Tag: "uplink"}}}}, nil
	}
	return &networkedGuest{t, daemon, d, g}
}

// printDevices runs in the guest: it prints the PCI function of each virtio interface.
const printDevices = `#!/bin/sh
for link in /sys/class/net/*; do
	function=$(readlink -f "$link/device/..")
	echo "guest: function ${function##*/} of $(cat "$link/address")"
done
`

// sameDevice checks that the guest has the interface with the tag at the PCI address that its config drive has.
func (n *networkedGuest) sameDevice() {
	n.t.Helper()
	drive, err := os.ReadFile(n.driver.path(n.guest.ID, "config.iso"))
	must(n.t, err)
	device := regexp.MustCompile(`"mac": "fa:16:3e:00:00:01",\s+"bus": "pci",\s+"address": "(\S+)",` +
		`\s+"tags": \[\s+"uplink"`).
		FindSubmatch(drive)
	if device == nil {
		n.t.Fatal("the config drive does not have the device of the tag")
	}
	want := fmt.Sprintf("guest: function %s of fa:16:3e:00:00:01", device[1])
	var text []byte
	testenv.Until(n.t, "the guest has printed its devices", func() bool {
		text, err = os.ReadFile(n.driver.path(n.guest.ID, "console.log"))
		return err == nil && strings.Contains(string(text), "of fa:16:3e:00:00:01")
	})
	if !strings.Contains(string(text), want) {
		n.t.Errorf("the guest has not printed %q:\n%s", want, text)
	}
}

// run runs a script that sees the files of the daemon.
func (n *networkedGuest) run(script string) {
	n.t.Helper()
	if out, err := n.daemon.Command(n.t.Context(), "sh", "-ec", script).CombinedOutput(); err != nil {
		n.t.Fatalf("%v: %s", err, out)
	}
}

// inNetwork runs a command in the network of the daemon, and returns its output.
func (n *networkedGuest) inNetwork(name string, arguments ...string) string {
	n.t.Helper()
	out, err := n.daemon.InNetwork(n.t.Context(), name, arguments...).CombinedOutput()
	if err != nil {
		n.t.Fatalf("%s %v: %v: %s", name, arguments, err, out)
	}
	return string(out)
}

// answersPing waits until the guest answers at its address, and checks its MAC address.
func (n *networkedGuest) answersPing() {
	n.t.Helper()
	testenv.Until(n.t, "the guest answers", func() error {
		return n.daemon.InNetwork(n.t.Context(), "busybox", "ping", "-c", "1", "-W", "1", "10.0.0.5").Run()
	})
	if out := n.inNetwork("ip", "neighbour", "show", "10.0.0.5"); !strings.Contains(out, "lladdr fa:16:3e:00:00:01") {
		n.t.Errorf("the address belongs to %s", out)
	}
}

// wantNoLink checks that the host has no such network interface.
func (n *networkedGuest) wantNoLink(name string) {
	n.t.Helper()
	if out, err := n.daemon.InNetwork(n.t.Context(), "ip", "link", "show", name).CombinedOutput(); err == nil {
		n.t.Errorf("the guest is gone, and its interface is not: %s", out)
	}
}

package libvirt

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/hypervisortest"
	"github.com/openberth/berth/agent/hypervisor/libvirt/domainxml"
	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/agent/imagecache"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/libvirtd"
	"github.com/openberth/berth/internal/testenv"
)

// Devices of ports are attached and detached while a guest is stopped.
func TestPortDevices(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	dir := daemon.GuestDir(t)
	hypervisortest.PortDevices(t, func(t *testing.T) hypervisor.Hypervisor { return open(t, daemon, dir) })
}

// releasing is what the guest of TestHotplug prints when it releases devices.
const releasing = "releases devices"

// withPort returns a guest with one more device, which is that of a port.
func withPort(g hypervisor.Guest, function uint8) hypervisor.Guest {
	one := hypervisortest.Guest("a", function).Devices[0]
	g.Devices = append(append([]hypervisor.Device{}, g.Devices...), one)
	g.Interfaces = append(append([]hypervisor.Interface{}, g.Interfaces...), hypervisor.Interface{
		Port: hypervisortest.ID("1"), MAC: "fa:16:3e:00:00:01", VIF: "hostdev_physical", VNIC: "direct-physical",
		Device: one.ID})
	return g
}

// openPlug returns a driver, and a running guest of it that releases devices when it is requested to.
func openPlug(t *testing.T) (*Driver, hypervisor.Guest, *libvirtd.Daemon) {
	t.Helper()
	daemon := libvirtd.Start(t)
	dir := daemon.GuestDir(t)
	d := open(t, daemon, dir)
	d.o.Detaching = Detaching{Attempts: 10, Timeout: time.Minute}
	base := filepath.Join(dir, "_base")
	d.o.Images = imagecache.New(base, nil, d.o.Log)
	must(t, os.Mkdir(base, 0o711))
	must(t, os.WriteFile(filepath.Join(base, rawImage+".raw"), libvirtd.ReleaseSector(releasing), 0o644))
	g := hypervisortest.Guest("c", 3)
	g.Image, g.DiskGB, g.VCPUs, g.MemoryMB = rawImage, 1, 1, 64
	must(t, d.Build(t.Context(), g))
	testenv.Until(t, "the guest has started", func() bool {
		text, err := os.ReadFile(d.path(g.ID, "console.log"))
		return err == nil && strings.Contains(string(text), releasing)
	})
	return d, g, daemon
}

// hostDevices returns how many devices of the host a domain has, while it runs and in its definition.
func hostDevices(t *testing.T, d *Driver, id string) (live, defined int) {
	t.Helper()
	c, _, err := d.connect(t.Context())
	must(t, err)
	domain, err := c.Lookup(t.Context(), uuid.MustParse(id))
	must(t, err)
	count := func(kind rpc.XMLKind) int {
		text, err := c.XML(t.Context(), domain, kind)
		must(t, err)
		parsed, err := domainxml.Decode(text)
		must(t, err)
		return len(parsed.Devices.Hostdevs)
	}
	return count(rpc.Live), count(rpc.Persistent)
}

// wantDevices checks how many devices of the host a running domain and its definition have.
func wantDevices(t *testing.T, d *Driver, id string, want int) {
	t.Helper()
	if live, defined := hostDevices(t, d, id); live != want || defined != want {
		t.Errorf("the domain has %d devices, its definition %d; want %d", live, defined, want)
	}
}

// TestHotplug attaches devices of ports to a running guest and detaches them. It is not started again.
func TestHotplug(t *testing.T) {
	t.Parallel()
	d, g, daemon := openPlug(t)
	domain := func() int {
		c, _, err := d.connect(t.Context())
		must(t, err)
		found, err := c.Lookup(t.Context(), uuid.MustParse(g.ID))
		must(t, err)
		return found.ID
	}
	started := domain()
	events := dial(t, daemon)
	must(t, events.WatchDevices(t.Context()))
	with := withPort(g, 4)
	for _, step := range []hypervisor.Guest{with, with, g, g, with, g} {
		must(t, d.Build(t.Context(), step))
		wantGuests(t, d, step)
		wantDevices(t, d, g.ID, len(step.Devices))
	}
	if domain() != started {
		t.Error("the guest was started again")
	}
	testenv.Until(t, "libvirt sends the event that the device is removed", func() bool {
		e := <-events.Events()
		return e.Kind == rpc.EventDeviceRemoved && e.Device == "hostdev1" && e.Domain.UUID.String() == g.ID
	})
	must(t, d.Build(t.Context(), hypervisortest.Guest("b", 4))) // the device is free
	if err := d.Build(t.Context(), with); !fault.Is(err, fault.Conflict) {
		t.Errorf("a device of another guest was attached: %v", err)
	}
	wantGuests(t, d, hypervisortest.Guest("b", 4), g)
}

// TestHotplugContinues ends the agent between the steps of attaching and detaching: the guest is listed with the
// device, and not as it must be, so that it is built again, which completes the change.
func TestHotplugContinues(t *testing.T) {
	t.Parallel()
	d, g, _ := openPlug(t)
	with := withPort(g, 4)
	port := with.Interfaces[0]
	begin := func(to hypervisor.Guest) *plugger {
		c, host, err := d.connect(t.Context())
		must(t, err)
		b := &builder{d: d, c: c, host: host, guest: to}
		_, err = b.reserve(t.Context())
		must(t, err)
		p := &plugger{builder: b, c: c}
		must(t, p.hold(t.Context()))
		return p
	}
	unfinished := with
	unfinished.Interfaces = []hypervisor.Interface{{Device: port.Device, VNIC: port.VNIC, MAC: port.MAC}}
	for _, target := range []hypervisor.Guest{with, g, with} {
		begin(target)
		wantGuests(t, d, unfinished)
		must(t, d.Build(t.Context(), target))
		wantGuests(t, d, target)
		wantDevices(t, d, g.ID, len(target.Devices))
	}
	must(t, d.Build(t.Context(), g))
	p := begin(with)
	element, err := domainxml.PortDevice(domainxml.Host{}, port, with.Devices)
	must(t, err)
	must(t, p.attach(t.Context(), port, element, rpc.Live)) // and not in the definition
	must(t, d.Build(t.Context(), with))
	wantDevices(t, d, g.ID, 2)
	begin(g)
	must(t, d.Build(t.Context(), stopped(g))) // the server was stopped meanwhile
	wantGuests(t, d, stopped(g))
}

// TestDeviceIsNotReleased detaches a device of a guest that does not release it: the guest keeps it, with a message
// that says what to do. It is detached with the same change when the guest is stopped.
func TestDeviceIsNotReleased(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	d := open(t, daemon, daemon.GuestDir(t))
	d.o.Detaching = Detaching{Attempts: 2, Timeout: 300 * time.Millisecond}
	g := hypervisortest.Guest("c", 3)
	with := withPort(g, 4)
	must(t, d.Build(t.Context(), with))
	err := d.Build(t.Context(), g)
	if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "0000:3b:00.4 after 2 requests") ||
		!strings.Contains(err.Error(), "stop the server") {
		t.Errorf("detached: %v", err)
	}
	wantGuests(t, d, with)
	wantDevices(t, d, g.ID, 2)
	if err := d.Build(t.Context(), hypervisortest.Guest("b", 4)); !fault.Is(err, fault.Conflict) {
		t.Errorf("a device that is not released was given to another guest: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	d.o.Detaching.Timeout = time.Hour
	time.AfterFunc(100*time.Millisecond, cancel)
	if err := d.Build(ctx, g); !fault.Is(err, fault.Unavailable) {
		t.Errorf("after the end of the context: %v", err)
	}
	must(t, d.Build(t.Context(), stopped(g)))
	wantGuests(t, d, stopped(g))
	must(t, d.Build(t.Context(), hypervisortest.Guest("b", 4)))
}

// TestDeviceIsNotAttached attaches more devices to a running guest than it has slots for: it keeps what it had.
func TestDeviceIsNotAttached(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	d := open(t, daemon, daemon.GuestDir(t))
	g := hypervisortest.Guest("c")
	must(t, d.Build(t.Context(), g))
	for function := uint8(1); ; function++ {
		next := withPort(g, function)
		err := d.Build(t.Context(), next)
		if err == nil && function < 7 {
			g = next
			continue
		}
		if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "stop the server, attach the port") {
			t.Errorf("function %d: %v", function, err)
		}
		break
	}
	wantGuests(t, d, g)
	wantDevices(t, d, g.ID, len(g.Devices))
}

// stopped returns a guest that does not run.
func stopped(g hypervisor.Guest) hypervisor.Guest {
	g.Stopped = true
	return g
}

// Package hypervisortest contains the tests that every driver of package hypervisor must pass.
package hypervisortest

import (
	"context"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// Run tests a driver. open returns the driver of one host; when a test calls it again, it returns the driver of the
// same host after a restart. The host has no guest at first, can give the devices 0000:3b:00.1 to 0000:3b:00.7 to
// guests, and has a bridge named Bridge. Guests are live-migrated to a host named Other, for which receive prepares
// it; nil: nothing must be prepared.
func Run(t *testing.T, open func(t *testing.T) hypervisor.Hypervisor,
	receive func(t *testing.T, g hypervisor.Guest)) {
	runCommon(t, open)
	t.Run("a guest that migrates is departed until it is destroyed", func(t *testing.T) { migrate(t, open, receive) })
}

// Other is the name of the host to which guests are live-migrated.
const Other = "other"

// RunWithoutMigration tests a driver that cannot live-migrate guests, like Run.
func RunWithoutMigration(t *testing.T, open func(t *testing.T) hypervisor.Hypervisor) {
	runCommon(t, open)
	t.Run("a migration is refused and changes nothing", func(t *testing.T) {
		h := open(t)
		g := Guest("a")
		must(t, h.Build(t.Context(), g))
		if err := h.Migrate(t.Context(), g.ID, hypervisor.Destination{Host: Other}); !fault.Is(err, fault.Conflict) {
			t.Errorf("migrated: %v", err)
		}
		has(t, h, g)
	})
}

// runCommon runs the tests of all drivers.
func runCommon(t *testing.T, open func(t *testing.T) hypervisor.Hypervisor) {
	t.Run("capacity is positive", func(t *testing.T) {
		c, err := open(t).Capacity(t.Context())
		if err != nil || c.VCPUs <= 0 || c.MemoryMB <= 0 || c.DiskGB <= 0 {
			t.Errorf("%+v %v", c, err)
		}
	})
	t.Run("a check succeeds and changes nothing", func(t *testing.T) { check(t, open(t)) })
	t.Run("a repeated build changes nothing", func(t *testing.T) {
		h := open(t)
		g := Guest("a", 1, 2)
		for range 2 {
			must(t, h.Build(t.Context(), g))
		}
		has(t, h, g)
	})
	t.Run("guests survive a restart, with their devices", func(t *testing.T) {
		a, b := Guest("a", 1), Guest("b")
		h := open(t)
		must(t, h.Build(t.Context(), b))
		must(t, h.Build(t.Context(), a))
		again := open(t)
		has(t, again, a, b)
		must(t, again.Build(t.Context(), a))
		has(t, again, a, b)
	})
	t.Run("a repeated destroy changes nothing", func(t *testing.T) {
		h := open(t)
		must(t, h.Build(t.Context(), Guest("a", 1)))
		must(t, h.Build(t.Context(), Guest("b", 2)))
		for range 2 {
			must(t, h.Destroy(t.Context(), ID("a")))
		}
		has(t, h, Guest("b", 2))
	})
	t.Run("a guest that was built is not built as a new one", func(t *testing.T) { kept(t, open) })
	t.Run("destroy frees the devices", func(t *testing.T) {
		h := open(t)
		must(t, h.Build(t.Context(), Guest("a", 1)))
		must(t, h.Destroy(t.Context(), ID("a")))
		must(t, h.Build(t.Context(), Guest("b", 1)))
		has(t, h, Guest("b", 1))
	})
	t.Run("a device has one holder", func(t *testing.T) { oneHolder(t, open(t)) })
	t.Run("a guest with other devices is a conflict", func(t *testing.T) {
		h := open(t)
		must(t, h.Build(t.Context(), Guest("a", 1)))
		if err := h.Build(t.Context(), Guest("a", 2)); !fault.Is(err, fault.Conflict) {
			t.Errorf("built: %v", err)
		}
		has(t, h, Guest("a", 1))
	})
	t.Run("hardware that an image chooses is given or refused", func(t *testing.T) { hardware(t, open) })
	t.Run("a device that gets a provider is the same device", func(t *testing.T) { counted(t, open) })
	changes(t, open)
	t.Run("a repeated rename changes nothing", func(t *testing.T) { rename(t, open) })
	t.Run("concurrent builds with one device: one succeeds", func(t *testing.T) { race(t, open(t)) })
	t.Run("an ended context is unavailable and changes nothing", func(t *testing.T) {
		h := open(t)
		ended, end := context.WithCancel(t.Context())
		end()
		if err := h.Build(ended, Guest("a", 1)); !fault.Is(err, fault.Unavailable) {
			t.Errorf("built: %v", err)
		}
		has(t, h)
	})
}

// check checks a host without and with a guest.
func check(t *testing.T, h hypervisor.Hypervisor) {
	must(t, h.Check(t.Context()))
	must(t, h.Build(t.Context(), Guest("a", 1)))
	must(t, h.Check(t.Context()))
	has(t, h, Guest("a", 1))
}

// hardware builds guests with the firmware that their images choose. They have it, also after a restart of the agent
// and when they are built again, or are a Conflict, so that another host is tried.
func hardware(t *testing.T, open func(t *testing.T) hypervisor.Hypervisor) {
	var built []hypervisor.Guest
	for _, chosen := range []hypervisor.Hardware{{Firmware: "uefi"}, {Firmware: "uefi", SecureBoot: "required"}} {
		g := Guest(string(rune('a' + len(built))))
		g.Hardware, g.MemoryMB = chosen, 128
		if err := open(t).Build(t.Context(), g); fault.Is(err, fault.Conflict) {
			continue
		}
		must(t, open(t).Build(t.Context(), g))
		built = append(built, g)
	}
	has(t, open(t), built...)
}

// kept builds guests that were built before. One that the driver has is changed as usual; one that it does not have is
// NotFound, and nothing is made.
func kept(t *testing.T, open func(t *testing.T) hypervisor.Hypervisor) {
	h := open(t)
	g, missing := Guest("a", 1), Guest("b", 2)
	must(t, h.Build(t.Context(), g))
	again := g
	again.Kept, again.Stopped, missing.Kept = true, true, true
	must(t, h.Build(t.Context(), again))
	g.Stopped = true
	has(t, open(t), g)
	if err := h.Build(t.Context(), missing); !fault.Is(err, fault.NotFound) {
		t.Errorf("a guest that is missing was built: %v", err)
	}
	has(t, open(t), g)
	missing.Kept = false
	must(t, h.Build(t.Context(), missing))
	has(t, h, g, missing)
}

// counted builds a guest again after its devices have got providers.
func counted(t *testing.T, open func(t *testing.T) hypervisor.Hypervisor) {
	h := open(t)
	before, after := Guest("a", 1, 2), Guest("a", 1, 2)
	for i := range before.Devices {
		before.Devices[i].Provider = ""
	}
	must(t, h.Build(t.Context(), before))
	must(t, h.Build(t.Context(), after))
	has(t, open(t), after)
}

// changes tests changes of an existing guest.
func changes(t *testing.T, open func(t *testing.T) hypervisor.Hypervisor) {
	t.Run("stop, start and rebuild with the same devices", func(t *testing.T) {
		h := open(t)
		g := Guest("a", 1)
		for _, step := range []struct {
			stopped bool
			build   int
		}{{true, 0}, {false, 0}, {false, 1}, {true, 2}} {
			g.Stopped, g.Build = step.stopped, step.build
			must(t, h.Build(t.Context(), g))
			has(t, h, g)
			has(t, open(t), g)
		}
	})
	t.Run("pause and suspend", func(t *testing.T) { held(t, open) })
	t.Run("NUMA cells are stored", func(t *testing.T) {
		h := open(t)
		a, b := Guest("a", 1), Guest("b", 2)
		a.Stopped = true // the host of the test may have neither a second node nor huge pages
		a.Cells = []hypervisor.GuestCell{{VCPUs: []int{0, 1}, MemoryMB: 512, PageKB: 2048, Node: 1,
			CPUs: map[int]int{0: 4, 1: 12}, Emulator: []int{5}}}
		b.Cells = []hypervisor.GuestCell{{VCPUs: []int{0, 1}, MemoryMB: 512, CPUs: map[int]int{1: 0}}}
		must(t, h.Build(t.Context(), a))
		must(t, h.Build(t.Context(), b))
		has(t, open(t), a, b)
	})
	t.Run("interfaces are stored, attached and detached", func(t *testing.T) { interfaces(t, open) })
	t.Run("unmanaged devices are stored as such", func(t *testing.T) {
		h := open(t)
		g := Guest("a", 1, 2)
		g.Devices[0].Unmanaged = true
		must(t, h.Build(t.Context(), g))
		has(t, open(t), g)
	})
}

// interfaces builds a guest with an interface that has a device, then attaches one on a bridge and detaches it.
func interfaces(t *testing.T, open func(t *testing.T) hypervisor.Hypervisor) {
	h := open(t)
	g := Guest("a", 1)
	function := hypervisor.Interface{Port: ID("1"), MAC: "fa:16:3e:00:00:01", VIF: "hostdev_physical",
		VNIC: "direct-physical", Device: g.Devices[0].ID}
	bridged := hypervisor.Interface{Port: ID("2"), MAC: "fa:16:3e:00:00:02", VIF: "bridge", VNIC: "normal",
		Bridge: Bridge, MTU: 1450}
	for _, list := range [][]hypervisor.Interface{{function}, {function, bridged}, {function}} {
		g.Interfaces = list
		must(t, h.Build(t.Context(), g))
		has(t, h, g)
		has(t, open(t), g)
	}
}

// PortDevices is the part of the suite for drivers that attach devices of ports to stopped guests and detach them. It
// builds a guest with an interface on one more device, and without it again. Other devices stay.
func PortDevices(t *testing.T, open func(t *testing.T) hypervisor.Hypervisor) {
	h := open(t)
	before, after := Guest("a", 1), Guest("a", 1, 2)
	before.Stopped, after.Stopped = true, true
	after.Interfaces = []hypervisor.Interface{{Port: ID("1"), MAC: "fa:16:3e:00:00:01", VIF: "hostdev_physical",
		VNIC: "direct-physical", Device: after.Devices[1].ID}}
	must(t, h.Build(t.Context(), before))
	for _, g := range []hypervisor.Guest{after, after, before} {
		must(t, h.Build(t.Context(), g))
		has(t, h, g)
		has(t, open(t), g)
	}
	wrong := Guest("a", 1, 2)
	wrong.Stopped = true
	if err := h.Build(t.Context(), wrong); !fault.Is(err, fault.Conflict) {
		t.Errorf("a device without a port was attached: %v", err)
	}
	must(t, h.Build(t.Context(), Guest("b", 2))) // the device is free
	if err := h.Build(t.Context(), after); !fault.Is(err, fault.Conflict) {
		t.Errorf("a device of another guest was attached: %v", err)
	}
	has(t, h, before, Guest("b", 2))
}

func oneHolder(t *testing.T, h hypervisor.Hypervisor) {
	must(t, h.Build(t.Context(), Guest("a", 1, 2)))
	err := h.Build(t.Context(), Guest("b", 2, 3))
	if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "0000:3b:00.2") {
		t.Errorf("built, or the device is not named: %v", err)
	}
	must(t, h.Destroy(t.Context(), ID("b")))
	has(t, h, Guest("a", 1, 2))
	must(t, h.Build(t.Context(), Guest("b", 3)))
}

func rename(t *testing.T, open func(t *testing.T) hypervisor.Hypervisor) {
	h := open(t)
	must(t, h.Build(t.Context(), Guest("a", 1)))
	want := Guest("a", 1)
	want.ID, want.Server = ID("b"), ID("a")
	for range 2 {
		must(t, h.Rename(t.Context(), ID("a"), ID("b"), ID("a")))
	}
	has(t, open(t), want)
	must(t, h.Build(t.Context(), Guest("a", 2))) // the old id is free again, and names another guest
	has(t, open(t), Guest("a", 2), want)
	if err := h.Rename(t.Context(), ID("a"), ID("b"), ""); !fault.Is(err, fault.Conflict) {
		t.Errorf("renamed over another: %v", err)
	}
	has(t, h, Guest("a", 2), want)
}

func migrate(t *testing.T, open func(t *testing.T) hypervisor.Hypervisor,
	receive func(t *testing.T, g hypervisor.Guest)) {
	h := open(t)
	g := Guest("a", 1)
	must(t, h.Build(t.Context(), g))
	there := device.PCI(pci.Address{Bus: 0x3b, Func: 2})
	if receive != nil {
		receive(t, Guest("a", 2))
	}
	if err := h.Migrate(t.Context(), g.ID, hypervisor.Destination{Host: Other}); !fault.Is(err, fault.Invalid) {
		t.Errorf("a device was left behind: %v", err)
	}
	has(t, h, g)
	to := hypervisor.Destination{Host: Other, Devices: map[device.ID]device.ID{g.Devices[0].ID: there}}
	for range 2 {
		must(t, h.Migrate(t.Context(), g.ID, to))
	}
	gone := g
	gone.Departed = true
	has(t, open(t), gone)
	if err := h.Build(t.Context(), g); !fault.Is(err, fault.Conflict) {
		t.Errorf("a departed guest was built: %v", err)
	}
	must(t, h.Destroy(t.Context(), g.ID))
	has(t, h)
	must(t, h.Build(t.Context(), Guest("b", 1)))
}

func race(t *testing.T, h hypervisor.Hypervisor) {
	var wg sync.WaitGroup
	built := make(chan string, 8)
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "0", "1"} {
		wg.Go(func() {
			switch err := h.Build(t.Context(), Guest(name, 1)); {
			case err == nil:
				built <- name
			case !fault.Is(err, fault.Conflict):
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	wg.Wait()
	if len(built) != 1 {
		t.Fatalf("%d guests were given the same device", len(built))
	}
	has(t, h, Guest(<-built, 1))
}

// Bridge is the bridge of the host that a guest's interface is attached to.
const Bridge = "br-berth"

// ID returns a guest's id for a hexadecimal digit.
func ID(digit string) string {
	return strings.NewReplacer("x", digit).Replace("xxxxxxxx-xxxx-4xxx-8xxx-xxxxxxxxxxxx")
}

// Guest returns a small guest named by a hexadecimal digit, with the functions 0000:3b:00.<f> as its devices.
func Guest(digit string, functions ...uint8) hypervisor.Guest {
	g := hypervisor.Guest{ID: ID(digit), Name: "guest " + digit, VCPUs: 2, MemoryMB: 512, DiskGB: 10}
	for _, f := range functions {
		g.Devices = append(g.Devices, hypervisor.Device{ID: device.PCI(pci.Address{Bus: 0x3b, Func: f}), Request: "r",
			Provider: "p"})
	}
	return g
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func has(t *testing.T, h hypervisor.Hypervisor, want ...hypervisor.Guest) {
	t.Helper()
	got, err := h.Guests(t.Context())
	if err != nil || !(len(got) == 0 && len(want) == 0 || reflect.DeepEqual(got, want)) {
		t.Errorf("guests %+v %v\nwant %+v", got, err, want)
	}
}

package app

import (
	"log/slog"
	"path/filepath"

	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/fake"
	"github.com/openberth/berth/agent/hypervisor/libvirt"
	"github.com/openberth/berth/agent/hypervisor/powervm"
	"github.com/openberth/berth/agent/imagecache"
	"github.com/openberth/berth/agent/kind"
	"github.com/openberth/berth/agent/loop"
	"github.com/openberth/berth/agent/powervm/slotsource"
	"github.com/openberth/berth/agent/powervm/slotsurvey"
	"github.com/openberth/berth/agent/sysfs"
	"github.com/openberth/berth/agent/uevent"
	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/settings"
)

// driverParts are what drivers use beside the settings.
type driverParts struct {
	dir    string        // of the agent
	images *image.Client // nil: there is no image service
	source facts.Source  // of the host's hardware
	boot   libvirt.FirstBoot
	locate libvirt.Locate // other hosts
}

// openDriver returns a hypervisor.
type openDriver func(s settings.Settings, parts driverParts) (hypervisor.Hypervisor, error)

// drivers are the hypervisors by the value of [DEFAULT] compute_driver.
var drivers = map[string]openDriver{
	settings.FakeDriver: func(s settings.Settings, parts driverParts) (hypervisor.Hypervisor, error) {
		h, err := fake.New(filepath.Join(parts.dir, "guests"), s.Capacity)
		if err == nil {
			h.Images = imagecache.New(filepath.Join(parts.dir, "images"), imageSource(parts.images), slog.Default())
		}
		return h, err
	},
	settings.PowerVMDriver:  openPowerVM,
	"libvirt.LibvirtDriver": openLibvirt,
	"libvirt":               openLibvirt,
}

// openPowerVM returns the driver for PowerVM. It uses the system that the source of facts has read, so that a cycle
// reads it once.
func openPowerVM(s settings.Settings, parts driverParts) (hypervisor.Hypervisor, error) {
	client, err := s.PowerVMClient(slog.Default())
	if err != nil {
		return nil, err
	}
	o := powervm.Options{Dir: filepath.Join(parts.dir, "partitions"), DiskGB: s.PowerVM.DiskGB,
		SlotsRequired: s.PowerVM.SlotsRequired}
	if slots, is := parts.source.(*slotsource.Source); is {
		o.LastRead = slots.LastRead
	}
	return powervm.New(client, o), nil
}

// imageDir is the directory of images below that of the guests, as Nova names it.
const imageDir = "_base"

// CachedImages returns the copies of images on this host. It calls no service and not libvirt.
func CachedImages(s settings.Settings) ([]imagecache.Copy, error) {
	driver, err := newLibvirt(s, driverParts{})
	if err != nil {
		return nil, err
	}
	used, err := libvirt.UsedImages(driver)
	if err != nil {
		return nil, err
	}
	return imagecache.Copies(filepath.Join(s.Libvirt.Instances, imageDir), used)
}

// openLibvirt returns the driver for libvirt. It does not connect.
func openLibvirt(s settings.Settings, parts driverParts) (hypervisor.Hypervisor, error) {
	return newLibvirt(s, parts)
}

func newLibvirt(s settings.Settings, parts driverParts) (*libvirt.Driver, error) {
	return libvirt.New(libvirt.Options{Socket: s.Libvirt.Socket, VirtType: s.Libvirt.VirtType,
		CPUModel: s.Libvirt.CPUModel, Dir: s.Libvirt.Instances, ShutdownTime: s.Libvirt.Shutdown,
		FirstBoot: parts.boot, Host: s.Host, VNC: s.Libvirt.VNC, Migration: libvirt.Migration(s.Libvirt.Migration),
		Locate:    parts.locate,
		Detaching: libvirt.Detaching(s.Libvirt.Detaching),
		Cleanup: libvirt.Cleanup{Every: s.Libvirt.ImageCleanup, Age: s.Libvirt.ImageAge,
			Most: int64(s.Libvirt.ImageCacheMax)},
		Images: imagecache.New(filepath.Join(s.Libvirt.Instances, imageDir), imageSource(parts.images),
			slog.Default()).Share(s.Host)})
}

// imageSource returns the images of a client; nil for none.
func imageSource(client *image.Client) imagecache.Source {
	if client == nil {
		return nil
	}
	return imageAccount(client)
}

// kinds are the kinds of devices beside PCI devices.
var kinds = []kind.Kind{slotsurvey.Kind()}

// factSources are the sources of a host's hardware by the value of [berth] fact_source, each with the events of its
// changes; nil: it has none.
var factSources = map[string]func(s settings.Settings) (facts.Source, loop.Events, error){
	"sysfs": func(s settings.Settings) (facts.Source, loop.Events, error) {
		fsys, err := settings.OpenSysfs(s.Sysfs)
		if err != nil {
			return nil, nil, err
		}
		if s.Sysfs != "/sys" { // the kernel sends events of its own devices, not of a captured machine
			return sysfs.Source{FS: fsys, Name: s.Sysfs}, nil, nil
		}
		return sysfs.Source{FS: fsys, Name: s.Sysfs}, uevent.Listen, nil
	},
	settings.IOSlots: func(s settings.Settings) (facts.Source, loop.Events, error) {
		source, err := s.SlotSource(slog.Default())
		if err != nil {
			return nil, nil, err
		}
		return source, nil, nil
	},
}

// openHypervisor returns the configured hypervisor. The fault is Invalid for one that Berth does not have.
func openHypervisor(s settings.Settings, parts driverParts) (hypervisor.Hypervisor, error) {
	if s.HostSettings.Driver == "" {
		return nil, fault.New(fault.Invalid, "%s", settings.NoDriver)
	}
	open, known := drivers[s.HostSettings.Driver]
	if !known {
		return nil, fault.New(fault.Invalid, "there is no compute_driver %q", s.HostSettings.Driver)
	}
	return open(s, parts)
}

// openFacts returns the configured source of facts. The fault is Invalid for one that Berth does not have.
func openFacts(s settings.Settings) (facts.Source, loop.Events, error) {
	open, known := factSources[s.HostSettings.Facts]
	if !known {
		return nil, nil, fault.New(fault.Invalid, "there is no fact_source %q", s.HostSettings.Facts)
	}
	return open(s)
}

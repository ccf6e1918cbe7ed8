package settings

import (
	"log/slog"
	"net/netip"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/openberth/berth/agent/health"
	"github.com/openberth/berth/config"
	"github.com/openberth/berth/fault"
)

// NoDriver is the sentence for a host without [DEFAULT] compute_driver. The option has no default: a host reports
// capacity only for guests that its operator wants there, and files are not guests.
const NoDriver = "[DEFAULT] compute_driver is not set; set it to libvirt.LibvirtDriver (guests of QEMU), " +
	PowerVMDriver + " or " + FakeDriver + " (guests are files, for trials)"

// RunsAgent reports whether `berth up` runs an agent: a driver is set, and NoAgent is not.
func (s Settings) RunsAgent() bool { return s.HostSettings.Driver != "" && !s.HostSettings.NoAgent }

// Drivers are the values of [DEFAULT] compute_driver, in Nova's words: the hypervisors that the agent can use.
var Drivers = []string{FakeDriver, "libvirt.LibvirtDriver", "libvirt", PowerVMDriver}

// FakeDriver is the driver whose guests are files.
const FakeDriver = "fake.FakeDriver"

// VFIO reports whether the hypervisor gives devices to guests by VFIO, which needs an IOMMU and whole groups of it.
func (h HostSettings) VFIO() bool { return strings.HasPrefix(h.Driver, "libvirt") }

// PowerVMDriver is the driver for hosts with PowerVM NovaLink.
const PowerVMDriver = "powervm.PowerVMDriver"

// FactSources are the values of [berth] fact_source: the sources of what a host has.
var FactSources = []string{"sysfs", IOSlots}

// IOSlots is the source for hosts with PowerVM NovaLink, and the default with PowerVMDriver.
const IOSlots = "ioslot"

// ipAddress checks an IP address.
func ipAddress(text string) (string, error) {
	at, err := netip.ParseAddr(text)
	if err != nil {
		return "", fault.New(fault.Invalid, "it is not an IP address, such as 192.0.2.1 or 2001:db8::1")
	}
	return at.String(), nil
}

// hostOptions are the rows of the options for the hypervisor and for what guests may use of the host.
func (s *Settings) hostOptions() config.Options {
	h := &s.HostSettings
	return config.Options{
		config.Text("DEFAULT", "compute_driver", &h.Driver, "", Drivers...),
		config.Parsed("DEFAULT", "my_ip", &h.Address, ipAddress),
		config.Parsed("compute", "cpu_shared_set", &h.CPUs.Shared, ParseCPUs),
		config.Parsed("compute", "cpu_dedicated_set", &h.CPUs.Dedicated, ParseCPUs),
		config.Flag("berth", "numa_in_placement", &h.CPUs.InPlacement, true),
		config.Flag("compute", "packing_host_numa_cells_allocation_strategy", &h.CPUs.Pack, false),
		config.Number("DEFAULT", "reserved_host_cpus", &s.raw.reservedCPUs, -1, 0, 1<<40),
		config.Number("DEFAULT", "reserved_host_memory_mb", &s.raw.reservedMB, -1, 0, 1<<40),
		config.Number("DEFAULT", "reserved_host_disk_mb", &s.raw.reservedDiskMB, -1, 0, 1<<40),
		config.Decimal("DEFAULT", "cpu_allocation_ratio", &h.CPUs.CPURatio, 0, 0, 1e6),
		config.Decimal("DEFAULT", "ram_allocation_ratio", &h.CPUs.MemoryRatio, 0, 0, 1e6),
		config.Decimal("DEFAULT", "disk_allocation_ratio", &h.CPUs.DiskRatio, 0, 0, 1e6),
		config.Text("berth", "device_clean_command", &h.Clean, ""),
		config.Text("berth", "device_start_command", &h.Start, ""),
		config.Text("berth", "device_health_command", &h.Health.Command, ""),
		config.Seconds("berth", "device_health_interval", &h.Health.Interval, 60, 0, 1<<31-1),
		config.Seconds("berth", "device_health_timeout", &h.Health.Timeout, 30, 1, 1<<31-1),
		config.Text("berth", "device_health_aer", &h.Health.AER, health.AllErrors, health.AllErrors, health.FatalErrors,
			health.NoErrors),
		config.Number("berth", "fake_vcpus", &s.Capacity.VCPUs, 64, 1, 1<<20),
		config.Number("berth", "fake_memory_mb", &s.Capacity.MemoryMB, 262144, 1, 1<<30),
		config.Number("berth", "fake_disk_gb", &s.Capacity.DiskGB, 4096, 1, 1<<30),
	}
}

// checkHost completes the options of the host.
func (s *Settings) checkHost(cfg *config.Config, _ *slog.Logger) error {
	c := &s.HostSettings.CPUs
	for option, of := range map[string]struct {
		read int
		to   **int
		unit int // units of the option in one unit of the inventory
	}{"reserved_host_cpus": {s.raw.reservedCPUs, &c.ReservedCPUs, 1}, "reserved_host_memory_mb": {s.raw.reservedMB,
		&c.ReservedMB, 1}, "reserved_host_disk_mb": {s.raw.reservedDiskMB, &c.ReservedGB, 1024}} {
		if _, set := cfg.Get("DEFAULT", option); set { // also empty: 0
			n := (max(of.read, 0) + of.unit - 1) / of.unit
			*of.to = &n
		}
	}
	if e, ok := cfg.Get("compute", "cpu_dedicated_set"); ok {
		if both := slices.DeleteFunc(slices.Clone(c.Dedicated), func(n int) bool {
			return !slices.Contains(c.Shared,
				n)
		}); len(both) > 0 {
			return e.Fault("CPU %d is in cpu_shared_set too; list each CPU in only one of the sets", both[0])
		}
	}
	if err := s.checkProgram(cfg, "device_clean_command", s.HostSettings.Clean, "cleaned"); err != nil {
		return err
	}
	if err := s.checkProgram(cfg, "device_start_command", s.HostSettings.Start, "prepared"); err != nil {
		return err
	}
	return s.checkProgram(cfg, "device_health_command", s.HostSettings.Health.Command, "checked")
}

// checkProgram checks the path of a program for devices. It warns if the program cannot be run now.
func (s *Settings) checkProgram(cfg *config.Config, option, path, purpose string) error {
	e, ok := cfg.Get("berth", option)
	if !ok || path == "" {
		return nil
	}
	if !filepath.IsAbs(path) {
		return e.Fault("not an absolute path; write the whole path of the program, such as /usr/local/sbin/device")
	}
	if _, err := exec.LookPath(path); err != nil {
		s.warn(e, "devices cannot be "+purpose+": the program cannot be run: "+err.Error())
	}
	return nil
}

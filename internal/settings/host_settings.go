package settings

import (
	"log/slog"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/openberth/berth/config"
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

// knownHost lists the options of HostSettings.
func knownHost() []config.Name {
	return []config.Name{
		{Group: "compute", Option: "cpu_shared_set"}, {Group: "compute", Option: "cpu_dedicated_set"},
		{Group: "compute", Option: "packing_host_numa_cells_allocation_strategy"},
		{Group: "DEFAULT", Option: "reserved_host_cpus"}, {Group: "DEFAULT", Option: "reserved_host_memory_mb"},
		{Group: "DEFAULT", Option: "reserved_host_disk_mb"},
		{Group: "DEFAULT", Option: "cpu_allocation_ratio"}, {Group: "DEFAULT", Option: "ram_allocation_ratio"},
		{Group: "DEFAULT", Option: "disk_allocation_ratio"},
		{Group: "berth", Option: "device_clean_command"},
		{Group: "DEFAULT", Option: "compute_driver"}, {Group: "berth", Option: "fact_source"},
	}
}

func (s *Settings) readHost(cfg *config.Config, _ *slog.Logger) (err error) {
	if s.HostSettings.Driver, err = cfg.String("DEFAULT", "compute_driver", "", Drivers); err != nil {
		return err
	}
	source := FactSources[0]
	if s.HostSettings.Driver == PowerVMDriver {
		source = IOSlots
	}
	if s.HostSettings.Facts, err = cfg.String("berth", "fact_source", source, FactSources); err != nil {
		return err
	}
	c := &s.HostSettings.CPUs
	if c.Shared, err = readCPUs(cfg, "cpu_shared_set"); err != nil {
		return err
	}
	if c.Dedicated, err = readCPUs(cfg, "cpu_dedicated_set"); err != nil {
		return err
	}
	if e, ok := cfg.Get("compute", "cpu_dedicated_set"); ok {
		if both := slices.DeleteFunc(slices.Clone(c.Dedicated), func(n int) bool {
			return !slices.Contains(c.Shared,
				n)
		}); len(both) > 0 {
			return e.Fault("CPU %d is in cpu_shared_set too; list each CPU in only one of the sets", both[0])
		}
	}
	if c.Pack, err = cfg.Bool("compute", "packing_host_numa_cells_allocation_strategy", false); err != nil {
		return err
	}
	for _, of := range []struct {
		option string
		to     **int
		unit   int // units of the option in one unit of the inventory
	}{{"reserved_host_cpus", &c.ReservedCPUs, 1}, {"reserved_host_memory_mb", &c.ReservedMB, 1}, {"reserved_host_disk_mb",
		&c.ReservedGB, 1024}} {
		if _, set := cfg.Get("DEFAULT", of.option); !set {
			continue
		}
		n, err := cfg.Int("DEFAULT", of.option, 0, 0, 1<<40)
		if err != nil {
			return err
		}
		n = (n + of.unit - 1) / of.unit
		*of.to = &n
	}
	for option, to := range map[string]*float64{"cpu_allocation_ratio": &c.CPURatio,
		"ram_allocation_ratio": &c.MemoryRatio, "disk_allocation_ratio": &c.DiskRatio} {
		if *to, err = cfg.Float("DEFAULT", option, 0, 0, 1e6); err != nil {
			return err
		}
	}
	if s.HostSettings.Clean, err = cfg.String("berth", "device_clean_command", "", nil); err != nil {
		return err
	}
	if e, ok := cfg.Get("berth", "device_clean_command"); ok && s.HostSettings.Clean != "" &&
		!filepath.IsAbs(s.HostSettings.Clean) {
		return e.Fault("not an absolute path; write the whole path of the program, such as " +
			"/usr/local/sbin/clean-device")
	} else if ok && s.HostSettings.Clean != "" {
		if _, err := exec.LookPath(s.HostSettings.Clean); err != nil {
			s.warn(e, "devices cannot be cleaned: the program cannot be run: "+err.Error())
		}
	}
	return nil
}

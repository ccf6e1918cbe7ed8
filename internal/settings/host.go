package settings

import (
	"log/slog"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/openberth/berth/config"
	"github.com/openberth/berth/fault"
)

// Drivers are the values of [DEFAULT] compute_driver, in Nova's words: the hypervisors that the agent can use.
var Drivers = []string{"fake.FakeDriver"}

// FactSources are the values of [berth] fact_source: the sources of what a host has.
var FactSources = []string{"sysfs"}

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
	if s.HostSettings.Driver, err = cfg.String("DEFAULT", "compute_driver", Drivers[0], Drivers); err != nil {
		return err
	}
	if s.HostSettings.Facts, err = cfg.String("berth", "fact_source", FactSources[0], FactSources); err != nil {
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
			return e.Fault("settings.Read", "CPU %d is in cpu_shared_set too; list each CPU in only one of the sets", both[0])
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
		return e.Fault("settings.Read", "not an absolute path; write the whole path of the program, such as "+
			"/usr/local/sbin/clean-device")
	} else if ok && s.HostSettings.Clean != "" {
		if _, err := exec.LookPath(s.HostSettings.Clean); err != nil {
			s.warn(e, "devices cannot be cleaned: the program cannot be run: "+err.Error())
		}
	}
	return nil
}

// readCPUs reads a set of host CPUs in Nova's notation; nil if the option is not set.
func readCPUs(cfg *config.Config, option string) ([]int, error) {
	e, ok := cfg.Get("compute", option)
	if !ok {
		return nil, nil
	}
	if err := e.Check("settings.Read"); err != nil {
		return nil, err
	}
	set, err := ParseCPUs(e.Value)
	if err != nil {
		return nil, e.Fault("settings.Read", "%s", fault.TextOf(err))
	}
	return set, nil
}

// maxCPU is larger than the number of CPUs that any kernel supports (CONFIG_NR_CPUS is at most 8192 on x86).
const maxCPU = 1 << 16

// ParseCPUs parses a set such as "4-12,^8,15": numbers and ranges; ^ excludes. It returns the numbers in rising order,
// or fault.Invalid.
func ParseCPUs(text string) ([]int, error) {
	const op = "settings.ParseCPUs"
	in, out := map[int]bool{}, map[int]bool{}
	for word := range strings.SplitSeq(text, ",") {
		word = strings.TrimSpace(word)
		if word == "" {
			continue
		}
		of := in
		rest, excluded := strings.CutPrefix(word, "^")
		if excluded {
			of = out
		}
		from, to, ranged := strings.Cut(rest, "-")
		if !ranged {
			to = from
		}
		first, err1 := strconv.ParseUint(strings.TrimSpace(from), 10, 32)
		last, err2 := strconv.ParseUint(strings.TrimSpace(to), 10, 32)
		if err1 != nil || err2 != nil || first > last || last >= maxCPU {
			return nil, fault.New(fault.Invalid, op, "%q is not a CPU or a range of CPUs; write them as in 4-12,^8,15", word)
		}
		for n := first; n <= last; n++ {
			of[int(n)] = true
		}
	}
	set := []int{}
	for n := range in {
		if !out[n] {
			set = append(set, n)
		}
	}
	slices.Sort(set)
	if len(set) == 0 {
		return nil, fault.New(fault.Invalid, op, "the set is empty; remove the option, or write CPUs as in 4-12,^8,15")
	}
	return set, nil
}

package settings

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
)

func TestHostSettings(t *testing.T) {
	read := func(text string) (Settings, error) {
		file := filepath.Join(t.TempDir(), "nova.conf")
		if err := os.WriteFile(file, []byte("[berth]\nsysfs = ../../agent/sysfs/sample.txtar\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		return Read(slog.New(slog.DiscardHandler), file)
	}
	s, err := read("device_clean_command = /bin/true\n[compute]\ncpu_shared_set = 0-1\ncpu_dedicated_set = " +
		"2-3\npacking_host_numa_cells_allocation_strategy = true\n" +
		"[DEFAULT]\nreserved_host_memory_mb = 512\nreserved_host_disk_mb = 1500\ncpu_allocation_ratio = " +
		"4.0\nram_allocation_ratio = 1.5\n")
	c := s.HostSettings.CPUs
	if err != nil || !slices.Equal(c.Shared, []int{0, 1}) || !slices.Equal(c.Dedicated, []int{2, 3}) || !c.Pack ||
		*c.ReservedMB != 512 || *c.ReservedGB != 2 ||
		c.ReservedCPUs != nil || c.CPURatio != 4 || c.MemoryRatio != 1.5 || c.DiskRatio != 0 ||
		s.HostSettings.Clean != "/bin/true" {
		t.Errorf("%+v %v", s.HostSettings, err)
	}
	if s, err := read("[DEFAULT]\nreserved_host_cpus =\n"); err != nil || s.HostSettings.CPUs.ReservedCPUs == nil {
		t.Errorf("an empty option is not 0: %+v %v", s.HostSettings.CPUs, err)
	}
	for text, says := range map[string]string{
		"[compute]\ncpu_shared_set = 0-2\ncpu_dedicated_set = 2-3\n": "CPU 2 is in cpu_shared_set too",
		"[compute]\ncpu_dedicated_set = x\n":                         "write them as in 4-12",
		"[DEFAULT]\nreserved_host_memory_mb = -1\n":                  "out of bounds",
		"[DEFAULT]\ncpu_allocation_ratio = -1\n":                     "out of bounds",
		"device_clean_command = clean\n":                             "whole path",
		"device_health_command = check\n":                            "whole path",
		"device_health_timeout = 0\n":                                "out of bounds",
		"device_health_aer = some\n":                                 "all, fatal, none",
	} {
		if _, err := read(text); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), says) ||
			!strings.Contains(err.Error(), "nova.conf:") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

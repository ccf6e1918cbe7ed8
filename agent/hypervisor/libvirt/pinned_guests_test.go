package libvirt

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/hypervisortest"
	"github.com/openberth/berth/agent/sysfs"
	"github.com/openberth/berth/internal/libvirtd"
)

// The threads of a guest's dedicated virtual CPUs run on their host threads only, and its memory is bound to the node
// of its cell: the kernel reports both of the running QEMU. The lab has the same check for a second node
// (internal/lab, TestNestedGuests).
func TestPinnedGuest(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	d := open(t, daemon, daemon.GuestDir(t))
	g := hypervisortest.Guest("9") // processOf must not find that of another test
	own, err := sysfs.ParseCPUList(allowedCPUs(t, "/proc/self"))
	must(t, err)
	if len(own) < 2 {
		t.Fatalf("the test may run on the CPUs %v; it needs two, of which one is not for the guest's CPU 0", own)
	}
	first, last := own[0], own[len(own)-1]
	g.Cells = []hypervisor.GuestCell{{VCPUs: []int{0, 1}, MemoryMB: 512, CPUs: map[int]int{0: last, 1: first}}}
	must(t, d.Build(t.Context(), g))
	process := processOf(t, g.ID)
	for name, want := range map[string]int{"CPU 0/TCG": last, "CPU 1/TCG": first} {
		if got := allowedCPUs(t, thread(t, process, name)); got != strconv.Itoa(want) {
			t.Errorf("%s may run on the host threads %s, want %d", name, got, want)
		}
	}
	if got := memoryPolicy(t, process, g.MemoryMB); got != "bind:0" {
		t.Errorf("the memory of the guest has the policy %q, want bind:0", got)
	}
}

// memoryPolicy returns the NUMA policy of the memory of a guest, which is the mapping of QEMU with its size.
func memoryPolicy(t *testing.T, process string, megabytes int) string {
	t.Helper()
	maps, err := os.ReadFile(process + "/maps")
	must(t, err)
	policies, err := os.ReadFile(process + "/numa_maps")
	must(t, err)
	for line := range strings.Lines(string(maps)) {
		var from, to uint64
		if _, err := fmt.Sscanf(line, "%x-%x ", &from, &to); err != nil || to-from != uint64(megabytes)<<20 {
			continue
		}
		_, policy, _ := strings.Cut("\n"+string(policies), fmt.Sprintf("\n%x ", from))
		return strings.Fields(policy + " none")[0]
	}
	t.Fatalf("no mapping of %d MiB:\n%s", megabytes, maps)
	return ""
}

// processOf returns the directory in /proc of the QEMU of a guest.
func processOf(t *testing.T, id string) string {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, name := range lines {
		text, _ := os.ReadFile(name) // the process may have ended
		if strings.HasPrefix(filepath.Base(string(text[:max(0, strings.IndexByte(string(text), 0))])), "qemu-system") &&
			strings.Contains(string(text), fmt.Sprintf("\x00%s\x00", id)) {
			return filepath.Dir(name)
		}
	}
	t.Fatalf("no QEMU of %s", id)
	return ""
}

// thread returns the directory in /proc of a thread of a process.
func thread(t *testing.T, process, name string) string {
	t.Helper()
	tasks, err := filepath.Glob(process + "/task/*")
	must(t, err)
	for _, task := range tasks {
		comm, _ := os.ReadFile(task + "/comm") // the thread may have ended
		if strings.TrimSpace(string(comm)) == name {
			return task
		}
	}
	t.Fatalf("%s has no thread %q", process, name)
	return ""
}

// allowedCPUs returns the host threads that a process or a thread may run on, such as 0-3.
func allowedCPUs(t *testing.T, dir string) string {
	t.Helper()
	status, err := os.ReadFile(dir + "/status")
	must(t, err)
	_, list, _ := strings.Cut(string(status), "\nCpus_allowed_list:")
	list, _, _ = strings.Cut(list, "\n")
	return strings.TrimSpace(list)
}

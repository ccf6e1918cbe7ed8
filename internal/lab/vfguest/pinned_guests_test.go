//go:build nested

package vfguest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/network"
)

// pinnedOptions restrict dedicated CPUs to that of node 1, so that a guest with them must be there.
const pinnedOptions = "[compute]\ncpu_dedicated_set = 1\ncpu_shared_set = 0\n"

// pages are the directory of the huge pages of node 1, and where they are mounted.
const (
	pages     = "/sys/devices/system/node/node1/hugepages/hugepages-2048kB/"
	pageFiles = "/dev/hugepages"
)

// reservePages reserves huge pages of node 1. libvirtd must start later.
func (m *machine) reservePages(number int) {
	m.t.Helper()
	must(m.t, os.WriteFile(pages+"nr_hugepages", []byte(strconv.Itoa(number)), 0))
	must(m.t, os.MkdirAll(pageFiles, 0o755))
	m.command("mount", "-t", "hugetlbfs", "hugetlbfs", pageFiles)
	if got := m.pages("nr_hugepages"); got != number {
		m.t.Fatalf("node 1 has %d huge pages, want %d", got, number)
	}
}

// pages returns a number of huge pages of node 1.
func (m *machine) pages(name string) int {
	m.t.Helper()
	text, err := os.ReadFile(pages + name)
	must(m.t, err)
	number, err := strconv.Atoi(strings.TrimSpace(string(text)))
	must(m.t, err)
	return number
}

// checkPinned starts the agent with dedicated CPUs, and creates a server with a dedicated CPU and huge pages: the
// thread of its CPU runs on node 1 only, and its memory is the huge pages of node 1. Its delete frees them.
func (m *machine) checkPinned() {
	m.t.Helper()
	ctx := m.t.Context()
	name := filepath.Join(m.dir, "berth.conf")
	text, err := os.ReadFile(name)
	must(m.t, err)
	m.killAgent()
	must(m.t, os.WriteFile(name, append(text, pinnedOptions...), 0o600))
	m.startAgent()
	_, err = m.compute.CreateFlavor(ctx, compute.CreateFlavor{ID: "pinned", Name: "pinned", VCPUs: 1, RAM: 64})
	must(m.t, err)
	must(m.t, m.compute.SetExtraSpecs(ctx, "pinned", map[string]string{"hw:cpu_policy": "dedicated",
		"hw:mem_page_size": "2048"}))
	free := m.pages("free_hugepages")
	id := m.createWith("pinned", network.Port{}, map[string]any{"flavorRef": "pinned", "networks": "none"})
	if reason := m.tillDone(id); reason != "" {
		m.t.Fatalf("%s; conditions %q", reason, m.conditions())
	}
	m.phase("the server with a dedicated CPU and huge pages is ACTIVE")
	if got := m.pages("free_hugepages"); got != free-32 {
		m.t.Errorf("%d huge pages of node 1 are free, want %d - 32", got, free)
	}
	if got := m.threadCPUs(m.process(id), "CPU 0/TCG"); !slices.Equal(got, []string{"1"}) {
		m.t.Errorf("the thread of the dedicated CPU may run on %q, want 1", got)
	}
	must(m.t, m.compute.DeleteServer(ctx, id))
	m.till("the huge pages are free", func() bool { return m.pages("free_hugepages") == free })
	m.phase("the server with a dedicated CPU is deleted")
}

// threadCPUs returns on which CPUs the threads of a process that have a name may run.
func (m *machine) threadCPUs(process int, name string) (lists []string) {
	m.t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", process))
	must(m.t, err)
	for _, task := range tasks {
		comm, err1 := os.ReadFile(task + "/comm")
		status, err2 := os.ReadFile(task + "/status")
		if err1 != nil || err2 != nil || strings.TrimSpace(string(comm)) != name {
			continue // of another name, or it has ended
		}
		_, list, _ := strings.Cut(string(status), "\nCpus_allowed_list:")
		list, _, _ = strings.Cut(list, "\n")
		lists = append(lists, strings.TrimSpace(list))
	}
	return lists
}

package app

import (
	"fmt"
	"strings"
)

// machine is a written machine with NUMA nodes and devices, in the form of a capture.
type machine struct {
	links, files strings.Builder
	bus          int
	groups       map[int]int // by bus: the IOMMU group of its devices, if it is not one for each
}

// node adds a NUMA node with CPUs of one socket, from number first on, and memory of 64 GiB.
func (m *machine) node(id, first, cpus int) {
	at, list := fmt.Sprintf("devices/system/node/node%d/", id), ""
	if cpus > 0 {
		list = fmt.Sprintf("%d-%d", first, first+cpus-1)
	}
	m.file(at+"cpulist", list)
	m.file(at+"meminfo", fmt.Sprintf("Node %d MemTotal:       67108864 kB", id))
	for cpu := first; cpu < first+cpus; cpu++ {
		at := fmt.Sprintf("devices/system/cpu/cpu%d/topology/", cpu)
		m.file(at+"physical_package_id", fmt.Sprint(id))
		m.file(at+"thread_siblings_list", fmt.Sprint(cpu))
	}
}

// devices adds plain devices of a product to a node; -1: no known node.
func (m *machine) devices(node, count int, vendor, product, class string) {
	for range count {
		m.device(node, 0, vendor, product, class, 0)
	}
}

// nics adds NICs with VFs of a product to a node.
func (m *machine) nics(node, count, vfs int) {
	for range count {
		m.device(node, 0, "15b3", "1021", "020000", vfs)
	}
}

// gpusAndNICs adds a root port with GPUs and NICs of a number of VFs each.
func (m *machine) gpusAndNICs(node, gpus, nics, vfs int) {
	m.bus++
	for n := range gpus + nics {
		if n < gpus {
			m.function(node, 32*n, "10de", "2330", "030200", 0)
		} else {
			m.function(node, 32*n, "15b3", "1021", "020000", vfs)
		}
	}
}

// device adds a function below a root port of its own, and its VFs.
func (m *machine) device(node, fn int, vendor, product, class string, vfs int) {
	m.bus++
	m.function(node, fn, vendor, product, class, vfs)
}

// function adds a function below the last root port, and its VFs. fn is eight times its slot.
func (m *machine) function(node, fn int, vendor, product, class string, vfs int) {
	root := fmt.Sprintf("devices/pci%04x:00/%04x:00:00.0", m.bus, m.bus)
	name := func(n int) string { return fmt.Sprintf("%04x:01:%02x.%d", m.bus, n/8, n%8) }
	for n := fn; n <= fn+vfs; n++ {
		at := root + "/" + name(n) + "/"
		fmt.Fprintf(&m.links, "-- bus/pci/devices/%s -> ../../../%s --\n", name(n), strings.TrimSuffix(at, "/"))
		id := product
		if n > fn {
			id = "101e"
			m.link(at+"physfn", "../"+name(fn))
		}
		m.file(at+"vendor", "0x"+vendor)
		m.file(at+"device", "0x"+id)
		m.file(at+"class", "0x"+class)
		m.file(at+"numa_node", fmt.Sprint(node))
		group, is := m.groups[m.bus]
		if !is {
			group = m.bus*100 + n
		}
		m.link(at+"iommu_group", fmt.Sprintf("../../../../kernel/iommu_groups/%d", group))
	}
	if vfs > 0 {
		at := root + "/" + name(fn) + "/"
		m.file(at+"sriov_totalvfs", fmt.Sprint(vfs))
		m.file(at+"sriov_numvfs", fmt.Sprint(vfs))
		m.file(at+"sriov_vf_device", "101e")
		for n := range vfs {
			m.link(fmt.Sprintf("%svirtfn%d", at, n), "../"+name(fn+1+n))
		}
	}
}

func (m *machine) file(path, text string) { fmt.Fprintf(&m.files, "-- %s --\n%s\n", path, text) }

func (m *machine) link(path, to string) { fmt.Fprintf(&m.files, "-- %s -> %s --\n", path, to) }

// text returns the capture.
func (m *machine) text() string {
	return "A machine written for a test.\n" + m.links.String() + m.files.String()
}

package sysfs

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// nodes adds the NUMA nodes, and returns the numbers of all, also of omitted ones. A kernel without NUMA has none.
func (f *reading) nodes(fsys fs.FS) (listed []int, err error) {
	entries, err := list(fsys, nodeDir)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if id, isNode := nodeNumber(entry.Name()); isNode {
			listed = append(listed, id)
		}
	}
	slices.Sort(listed)
	for _, id := range listed {
		name := "node" + strconv.Itoa(id)
		if n, known := f.node(fsys, name, id); known {
			f.distances(fsys, name, listed, &n)
			f.Nodes = append(f.Nodes, n)
		}
	}
	return listed, nil
}

// place checks the NUMA nodes of the devices against the nodes of the host. unplaced are the devices without a file
// numa_node: on a kernel without NUMA that is not a problem.
func (f *reading) place(listed []int, unplaced map[pci.Address]bool) {
	at := make(map[pci.Address]int, len(f.Devices))
	for i := range f.Devices {
		d := &f.Devices[i]
		if d.NUMANode != pci.NoNUMA && len(listed) > 0 && !slices.Contains(listed, d.NUMANode) {
			f.problem(d.Address.String(), "numa_node is %d, which the host does not have: the node is taken as "+
				"unknown; %s", d.NUMANode, withoutNode)
			d.NUMANode = pci.NoNUMA
		}
		at[d.Address] = d.NUMANode
	}
	for i := range f.Devices {
		d := &f.Devices[i]
		missing := unplaced[d.Address] && len(listed) > 0
		node := pci.NoNUMA
		if d.Parent != nil {
			if of, there := at[*d.Parent]; there {
				node = of
			}
		}
		switch {
		case node == pci.NoNUMA && missing:
			f.problem(d.Address.String(), "numa_node is missing: the node is taken as unknown; check that the agent "+
				"sees the whole /sys, or %s", byPolicy)
		case node == pci.NoNUMA || d.NUMANode == node:
		case d.NUMANode == pci.NoNUMA:
			d.NUMANode = node // a VF is on the node of its card
			if missing {
				f.problem(d.Address.String(), "numa_node is missing: node %d of its PF %s is assumed; check that the "+
					"agent sees the whole /sys", node, d.Parent)
			}
		default:
			f.problem(d.Address.String(), "numa_node is %d, but %d of its PF %s: its own is believed; correct the "+
				"firmware's tables", d.NUMANode, node, d.Parent)
		}
	}
}

// node reads one NUMA node. Without its CPUs the node is omitted; other properties may be unknown.
func (f *reading) node(fsys fs.FS, name string, id int) (n facts.Node, known bool) {
	dir := path.Join(nodeDir, name)
	cpulist, err := readAttribute(fsys, path.Join(dir, "cpulist"))
	if err != nil {
		f.problem(name, "%v: the node is left out, and no guest is put on it; let the agent read %s", failed("cpulist",
			err), dir)
		return n, false
	}
	if n.CPUs, err = ParseCPUList(cpulist.text); err != nil {
		f.problem(name, "cpulist is %s, which is not a list such as 0-3,8: the node is left out, and no guest is put "+
			"on it; look in the kernel log", quoted(cpulist.text))
		return n, false
	}
	if !cpulist.there {
		f.problem(name, "cpulist is missing: the node is taken as one without CPUs; check that the agent sees the "+
			"whole /sys")
	}
	n.ID, n.Socket = id, facts.NoSocket
	f.cores(fsys, name, &n)
	f.memory(fsys, name, &n)
	f.pages(fsys, name, &n)
	return n, true
}

// distances reads how far a node is from the listed nodes, which are all, in the order of the file.
func (f *reading) distances(fsys fs.FS, name string, listed []int, n *facts.Node) {
	const assumed = "its distances are taken as unknown, and so are the nodes near its devices if it has no CPUs; "
	file, err := readAttribute(fsys, path.Join(nodeDir, name, "distance"))
	if err != nil {
		f.problem(name, "%v: "+assumed+"let the agent read %s", failed("distance", err), path.Join(nodeDir, name))
		return
	}
	distances := map[int]int{}
	for i, field := range strings.Fields(file.text) {
		far, err := strconv.ParseUint(field, 10, 16)
		if err != nil || i >= len(listed) {
			break
		}
		distances[listed[i]] = int(far)
	}
	if file.there && (len(distances) != len(listed) || len(strings.Fields(file.text)) != len(listed)) {
		f.problem(name, "distance is %s, which is not one number for each of the %d nodes: "+assumed+
			"look in the kernel log", quoted(file.text), len(listed))
		return
	}
	if file.there {
		n.Distances = distances
	}
}

// memory reads the memory size of a node.
func (f *reading) memory(fsys fs.FS, name string, n *facts.Node) {
	const assumed = "the node is taken as one without memory, so that guests with NUMA cells get only huge pages of " +
		"it; check that the agent sees the whole /sys"
	meminfo, err := readAttribute(fsys, path.Join(nodeDir, name, "meminfo"))
	switch {
	case err != nil:
		f.problem(name, "%v: %s", failed("meminfo", err), assumed)
	case !meminfo.there:
		f.problem(name, "meminfo is missing: %s", assumed)
	default:
		if n.MemoryMB, err = parseMemTotal(meminfo.text); err != nil {
			f.problem(name, "%s: %s", fault.TextOf(err), assumed)
		}
	}
}

// cores reads the socket of a node's CPUs, and which CPUs share a core.
func (f *reading) cores(fsys fs.FS, name string, n *facts.Node) {
	sockets := map[int]bool{}
	told := false
	for _, cpu := range n.CPUs {
		dir := path.Join(cpuDir, "cpu"+strconv.Itoa(cpu), "topology")
		if of, err := readAttribute(fsys, path.Join(dir, "physical_package_id")); err == nil {
			if socket, err := strconv.Atoi(of.text); err == nil {
				sockets[socket] = true
			}
		}
		siblings, err := readAttribute(fsys, path.Join(dir, "thread_siblings_list"))
		if err != nil || siblings.text == "" {
			continue
		}
		group, err := ParseCPUList(siblings.text)
		if err != nil || !slices.Contains(group, cpu) {
			f.problem(name, "thread_siblings_list of CPU %d is %s: the threads of its core are taken as unknown; "+
				"check the kernel log", cpu, quoted(siblings.text))
			continue
		}
		told = true
		group = slices.DeleteFunc(group, func(other int) bool { return !slices.Contains(n.CPUs, other) })
		if group[0] == cpu {
			n.Siblings = append(n.Siblings, group)
		}
	}
	if !told {
		n.Siblings = nil
	}
	switch {
	case len(sockets) == 1:
		for socket := range sockets {
			n.Socket = max(socket, facts.NoSocket)
		}
	case len(sockets) > 1:
		f.problem(name, "its CPUs are on %d sockets by physical_package_id: the socket is taken as unknown; devices "+
			"asked for with the NUMA policy socket are not found here",
			len(sockets))
	}
}

// pages reads the huge pages of a node.
func (f *reading) pages(fsys fs.FS, name string, n *facts.Node) {
	dir := path.Join(nodeDir, name, "hugepages")
	entries, err := list(fsys, dir)
	if err != nil {
		f.problem(name, "%v: the node is taken as one without huge pages; let the agent read %s", failed("hugepages",
			err), dir)
	}
	for _, entry := range entries {
		size, isSize := pageSize(entry.Name())
		if !isSize {
			continue
		}
		number, err := readAttribute(fsys, path.Join(dir, entry.Name(), "nr_hugepages"))
		if err != nil {
			err = failed("nr_hugepages", err)
		}
		total := uint64(0)
		if err == nil && number.text != "" {
			if total, err = strconv.ParseUint(number.text, 10, 31); err != nil {
				err = invalid("nr_hugepages is %s, which is not a number", quoted(number.text))
			}
		}
		if err != nil {
			f.problem(name, "%s: %s are taken as none; let the agent read %s", fault.TextOf(err), entry.Name(), dir)
			continue
		}
		n.Pages = append(n.Pages, facts.Pages{SizeKB: size, Total: int(total)})
	}
	slices.SortFunc(n.Pages, func(a, b facts.Pages) int { return a.SizeKB - b.SizeKB })
}

// pageSize parses the name of a directory such as hugepages-2048kB.
func pageSize(name string) (kb int, ok bool) {
	digits, is := strings.CutPrefix(name, "hugepages-")
	digits, isKB := strings.CutSuffix(digits, "kB")
	n, err := strconv.ParseUint(digits, 10, 40)
	return int(n), is && isKB && err == nil && n > 0
}

// parseMemTotal returns a node's memory in MiB from its meminfo: "facts.Node 0 MemTotal:       131889648 kB".
func parseMemTotal(text string) (mb int, err error) {
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) >= 5 && fields[2] == "MemTotal:" && fields[4] == "kB" {
			kb, err := strconv.ParseUint(fields[3], 10, 50)
			if err != nil {
				return 0, invalid("MemTotal of meminfo is %s, which is not a number of kB", quoted(fields[3]))
			}
			return int(kb / 1024), nil
		}
	}
	return 0, invalid("meminfo has no MemTotal")
}

package sysfs

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// cpuDir has a directory for each CPU: cpu<n>/topology/{physical_package_id,thread_siblings_list}.
const cpuDir = "devices/system/cpu"

// NoSocket is the socket of a NUMA node whose CPUs do not say it, or do not agree.
const NoSocket = -1

// Node is a NUMA node.
type Node struct {
	ID       int
	CPUs     []int   // numbers of its host threads, rising; a node of memory alone has none
	Socket   int     // physical_package_id of its CPUs, or NoSocket
	Siblings [][]int // its threads by cores, each group rising; nil when the CPUs do not say it
	MemoryMB int     // MiB in all (MemTotal of meminfo); 0 when it is not told
	Pages    []Pages // its huge pages, by size
}

// Pages are the huge pages of one size.
type Pages struct {
	SizeKB int
	Total  int // nr_hugepages
}

// nodes adds the NUMA nodes, and gives the numbers of all, also of those that are left out. A kernel without NUMA has none.
func (f *Facts) nodes(fsys fs.FS) (listed []int, err error) {
	entries, err := fs.ReadDir(fsys, nodeDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, entry := range entries {
		id, isNode := nodeNumber(entry.Name())
		if !isNode {
			continue
		}
		listed = append(listed, id)
		if n, known := f.node(fsys, entry.Name(), id); known {
			f.Nodes = append(f.Nodes, n)
		}
	}
	slices.SortFunc(f.Nodes, func(a, b Node) int { return a.ID - b.ID })
	return listed, nil
}

// place judges what the devices say of their NUMA nodes by the nodes that there are.
func (f *Facts) place(listed []int) {
	at := make(map[pci.Address]int, len(f.Devices))
	for i := range f.Devices {
		d := &f.Devices[i]
		if d.NUMANode != pci.NoNUMA && len(listed) > 0 && !slices.Contains(listed, d.NUMANode) {
			f.problem(d.Address.String(), "numa_node is %d, which the host does not have; the node is taken as unknown", d.NUMANode)
			d.NUMANode = pci.NoNUMA
		}
		at[d.Address] = d.NUMANode
	}
	for i := range f.Devices {
		d := &f.Devices[i]
		if d.Parent == nil {
			continue
		}
		node, there := at[*d.Parent]
		switch {
		case !there || node == pci.NoNUMA || d.NUMANode == node:
		case d.NUMANode == pci.NoNUMA:
			d.NUMANode = node // a VF lies where its card does
		default:
			f.problem(d.Address.String(), "numa_node is %d, but %d of its PF %s; its own is believed", d.NUMANode, node, d.Parent)
		}
	}
}

// node reads one NUMA node. Without its CPUs it is left out; anything else of it may be unknown.
func (f *Facts) node(fsys fs.FS, name string, id int) (n Node, known bool) {
	dir := path.Join(nodeDir, name)
	text, err := readOptional(fsys, path.Join(dir, "cpulist"))
	if err != nil {
		f.problem(name, "cannot be read: %v", err)
		return n, false
	}
	n = Node{ID: id, Socket: NoSocket}
	if n.CPUs, err = ParseCPUList(text); err != nil {
		f.problem(name, "is left out: %s", fault.TextOf(err))
		return n, false
	}
	f.cores(fsys, name, &n)
	if text, err = readOptional(fsys, path.Join(dir, "meminfo")); err == nil && text != "" {
		n.MemoryMB, err = parseMemTotal(text)
	}
	if err != nil {
		f.problem(name, "its memory is taken as unknown: %v", err)
	}
	f.pages(fsys, name, &n)
	return n, true
}

// cores reads which socket the CPUs of a node are on, and which of them share a core.
func (f *Facts) cores(fsys fs.FS, name string, n *Node) {
	sockets := map[int]bool{}
	told := false
	for _, cpu := range n.CPUs {
		dir := path.Join(cpuDir, "cpu"+strconv.Itoa(cpu), "topology")
		if text, err := readOptional(fsys, path.Join(dir, "physical_package_id")); err == nil && text != "" {
			if socket, err := strconv.Atoi(text); err == nil {
				sockets[socket] = true
			}
		}
		text, err := readOptional(fsys, path.Join(dir, "thread_siblings_list"))
		if err != nil || text == "" {
			continue
		}
		group, err := ParseCPUList(text)
		if err != nil || !slices.Contains(group, cpu) {
			f.problem(name, "CPU %d says that %q share its core; they are taken as unknown", cpu, text)
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
			n.Socket = max(socket, NoSocket)
		}
	case len(sockets) > 1:
		f.problem(name, "its CPUs are on %d sockets; the socket is taken as unknown", len(sockets))
	}
}

// pages reads the huge pages of a node.
func (f *Facts) pages(fsys fs.FS, name string, n *Node) {
	dir := path.Join(nodeDir, name, "hugepages")
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return // a kernel without huge pages
	}
	for _, entry := range entries {
		size, isSize := pageSize(entry.Name())
		if !isSize {
			continue
		}
		text, err := readOptional(fsys, path.Join(dir, entry.Name(), "nr_hugepages"))
		total := 0
		if err == nil && text != "" {
			total, err = strconv.Atoi(text)
		}
		if err != nil {
			f.problem(name, "%s are taken as none: %v", entry.Name(), err)
			continue
		}
		n.Pages = append(n.Pages, Pages{SizeKB: size, Total: total})
	}
	slices.SortFunc(n.Pages, func(a, b Pages) int { return a.SizeKB - b.SizeKB })
}

// pageSize understands the name of a directory such as hugepages-2048kB.
func pageSize(name string) (kb int, ok bool) {
	digits, is := strings.CutPrefix(name, "hugepages-")
	digits, isKB := strings.CutSuffix(digits, "kB")
	n, err := strconv.ParseUint(digits, 10, 40)
	return int(n), is && isKB && err == nil && n > 0
}

// parseMemTotal finds a node's memory in MiB in its meminfo: "Node 0 MemTotal:       131889648 kB".
func parseMemTotal(text string) (mb int, err error) {
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) >= 5 && fields[2] == "MemTotal:" && fields[4] == "kB" {
			kb, err := strconv.ParseUint(fields[3], 10, 50)
			if err != nil {
				return 0, invalid("MemTotal %q is no number of kB", fields[3])
			}
			return int(kb / 1024), nil
		}
	}
	return 0, invalid("meminfo has no MemTotal")
}

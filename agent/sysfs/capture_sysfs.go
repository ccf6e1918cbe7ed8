package sysfs

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/txtar"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// What Capture keeps of a device. It keeps more than Read needs, so that an old capture can answer new questions.
var (
	keptFiles = append([]string{"vendor", "device", "class", "subsystem_vendor", "subsystem_device", "revision"},
		attributeNames()...)
	keptLinks = []string{"driver", "iommu_group", "physfn"}
	// keptKeys are the lines of uevent that Read needs. They are kept because a device whose uevent has them is read
	// from it alone.
	keptKeys = []string{"DRIVER", "PCI_CLASS", "PCI_ID"}
)

// Capture writes the PCI devices, network interfaces and NUMA nodes of a machine as a text archive in the txtar format,
// which Load loads. An entry is one of:
//
//	path             a file
//	path/            a directory in which nothing else is kept
//	path -> target   a link; except of links to devices, only the last element is kept: Read reads no more
//	path !! reason   a name that cannot be read, and why; with a slash behind path, a directory that cannot be listed
//
// Odd bytes of a name are written as in a URL. MAC addresses and serial numbers are written as zeros; nothing else in
// the text names the machine. Read finds the same devices, nodes and problems in the loaded text as in the machine.
// Errors: Unavailable when the lists of devices or of NUMA nodes cannot be read; Invalid when there is no device.
func Capture(fsys fs.FS) ([]byte, error) {
	c := capture{fsys: fsys, written: map[string]bool{}}
	c.archive.Comment = []byte("The PCI part of /sys: files by their path, symlinks as \"path -> target\", what " +
		"cannot be read as \"path !! reason\".\n")
	devices, err := fs.ReadDir(fsys, deviceDir)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "cannot list PCI devices in %s: %w", deviceDir, reason(err))
	}
	if len(devices) == 0 {
		return nil, fault.New(fault.Invalid, "there is no PCI device in %s to capture", deviceDir)
	}
	nodes, err := list(fsys, nodeDir)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "cannot list NUMA nodes in %s: %w", nodeDir, err)
	}
	c.devices(devices)
	for _, node := range nodes {
		if _, isNode := nodeNumber(node.Name()); isNode {
			c.node(node.Name())
		}
	}
	c.vdpa()
	c.nics()
	return txtar.Format(&c.archive), nil
}

// capture collects an archive.
type capture struct {
	fsys    fs.FS
	archive txtar.Archive
	written map[string]bool // names of entries, without what follows a name
}

// put adds an entry unless there is one of that name. more is what follows the name: " -> target", " !! reason", "/" or
// nothing.
func (c *capture) put(name, more, data string) {
	if c.written[name] {
		return
	}
	c.written[name] = true
	if data != "" && !strings.HasSuffix(data, "\n") {
		data += "\n"
	}
	c.archive.Files = append(c.archive.Files, txtar.File{Name: escape(name) + more, Data: []byte(escapeLines(data))})
}

// unreadable adds the entry of a name that cannot be read.
func (c *capture) unreadable(name string, why error) {
	c.put(name, unreadableMark+escapeReason(why.Error()), "")
}

// file copies a file, if it exists.
func (c *capture) file(from, to string) {
	if data, there, err := readData(c.fsys, from); err != nil {
		c.unreadable(to, err)
	} else if there {
		c.put(to, "", string(data))
	}
}

// link copies the last element of a link, if it exists.
func (c *capture) link(from, to string) {
	last, err := readLink(c.fsys, from)
	if err != nil {
		c.unreadable(to, err)
	} else if last != "" {
		c.put(to, arrow+escape(harmless(to, last)), "")
	}
}

// harmless returns a target for the entry of a link with this last element. It is the element itself, unless Load
// could interpret that as a link beside it or as a path above the root.
func harmless(entry, last string) string {
	if last != "." && last != ".." && !slices.Contains(keptLinks, last) && !strings.HasPrefix(last, "virtfn") {
		return last
	}
	return strings.Repeat("../", strings.Count(entry, "/")) + "class/none/" + last
}

// devices captures the list of devices, each with a link to its directory where that is as the kernel has it.
func (c *capture) devices(entries []fs.DirEntry) {
	directory := map[string]string{}
	for _, entry := range entries {
		name := path.Join(deviceDir, entry.Name())
		info, err := fs.Stat(c.fsys, name)
		_, notAddress := pci.ParseAddress(entry.Name())
		switch {
		case notAddress != nil:
			c.put(name, "", "") // that is all that Read needs
		case absent(err):
			c.unreadable(name, fs.ErrNotExist)
		case err != nil:
			c.unreadable(name, reason(err))
		case !info.IsDir():
			c.put(name, "", "")
		default:
			at, target, ordinary := directoryOf(c.fsys, entry.Name())
			if directory[name] = at; ordinary {
				c.put(name, arrow+escape(target), "")
			}
		}
	}
	for _, entry := range entries {
		name := path.Join(deviceDir, entry.Name())
		if at, is := directory[name]; is {
			c.device(name, at)
		}
	}
}

// device captures one device: from is its entry in the list of devices, to the directory in the archive.
func (c *capture) device(from, to string) {
	before := len(c.archive.Files)
	c.uevent(path.Join(from, "uevent"), path.Join(to, "uevent"))
	for _, name := range keptFiles {
		c.file(path.Join(from, name), path.Join(to, name))
	}
	for _, name := range keptLinks {
		c.link(path.Join(from, name), path.Join(to, name))
	}
	if serial, err := readSerial(c.fsys, from); err != nil {
		c.unreadable(path.Join(to, "vpd"), err)
	} else if serial != "" {
		c.put(path.Join(to, "vpd"), serialEntry, "0")
	}
	c.net(from, to)
	entries, err := list(c.fsys, from)
	if err != nil {
		c.put(to, "/"+unreadableMark+escapeReason(err.Error()), "")
	}
	for _, entry := range entries {
		name := entry.Name()
		if digits, is := strings.CutPrefix(name, "virtfn"); is {
			if _, err := strconv.ParseUint(digits, 10, 32); err == nil {
				c.link(path.Join(from, name), path.Join(to, name))
			}
		}
		if isVirtio(entry) {
			count := len(c.archive.Files)
			c.net(path.Join(from, name), path.Join(to, name))
			c.ensure(path.Join(to, name), count)
		}
	}
	c.ensure(to, before)
}

// ensure adds the entry of a directory if no entry was added since there were count entries: an archive has no other
// empty directories.
func (c *capture) ensure(dir string, count int) {
	if len(c.archive.Files) == count {
		c.put(dir, "/", "")
	}
}

// uevent keeps the lines of uevent that Read needs.
func (c *capture) uevent(from, to string) {
	data, _, err := readData(c.fsys, from)
	if err != nil {
		c.unreadable(to, err)
		return
	}
	var kept strings.Builder
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if key, _, ok := strings.Cut(line, "="); ok && slices.Contains(keptKeys, key) {
			kept.WriteString(line + "\n")
		}
	}
	if kept.Len() > 0 {
		c.put(to, "", kept.String())
	}
}

// net keeps the names of network interfaces.
func (c *capture) net(from, to string) {
	entries, err := list(c.fsys, path.Join(from, "net"))
	if err != nil {
		c.unreadable(path.Join(to, "net"), err)
	}
	for _, entry := range entries {
		c.put(path.Join(to, "net", entry.Name(), "address"), "", "00:00:00:00:00:00")
	}
}

// node keeps what Read needs of a NUMA node and of its CPUs.
func (c *capture) node(name string) {
	dir, before := path.Join(nodeDir, name), len(c.archive.Files)
	c.file(path.Join(dir, "cpulist"), path.Join(dir, "cpulist"))
	c.file(path.Join(dir, "distance"), path.Join(dir, "distance"))
	c.meminfo(path.Join(dir, "meminfo"))
	huge := path.Join(dir, "hugepages")
	sizes, err := list(c.fsys, huge)
	if err != nil {
		c.unreadable(huge, err)
	}
	for _, size := range sizes {
		if _, isSize := pageSize(size.Name()); isSize {
			count, of := len(c.archive.Files), path.Join(huge, size.Name())
			c.file(path.Join(of, "nr_hugepages"), path.Join(of, "nr_hugepages"))
			c.ensure(of, count)
		}
	}
	c.ensure(dir, before)
	cpulist, err := readAttribute(c.fsys, path.Join(dir, "cpulist"))
	if err != nil {
		return
	}
	cpus, err := ParseCPUList(cpulist.text)
	if err != nil {
		return
	}
	for _, cpu := range cpus {
		for _, file := range []string{"physical_package_id", "thread_siblings_list"} {
			name := path.Join(cpuDir, "cpu"+strconv.Itoa(cpu), "topology", file)
			c.file(name, name)
		}
	}
}

// meminfo keeps the lines with the size of the memory: the others change all the time.
func (c *capture) meminfo(name string) {
	data, there, err := readData(c.fsys, name)
	if err != nil {
		c.unreadable(name, err)
		return
	}
	var kept strings.Builder
	for line := range strings.Lines(string(data)) {
		if strings.Contains(line, "MemTotal:") {
			kept.WriteString(line)
		}
	}
	if there {
		c.put(name, "", kept.String())
	}
}

// vdpa keeps which PCI device carries each vDPA device.
func (c *capture) vdpa() {
	entries, err := list(c.fsys, vdpaDir)
	if err != nil {
		c.unreadable(vdpaDir, err)
	}
	for _, entry := range entries {
		name := path.Join(vdpaDir, entry.Name())
		target, err := fs.ReadLink(c.fsys, name)
		if absent(err) {
			continue
		}
		if err != nil {
			c.unreadable(name, linkReason(err))
			continue
		}
		kept := "none/" + lastElement(target)
		if carrier, found := lastAddress(target); found {
			kept = carrier.String() + "/vdpa"
		}
		c.put(name, arrow+escape("../../../devices/"+kept), "")
	}
}

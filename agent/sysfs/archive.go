package sysfs

import (
	_ "embed"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing/fstest" // MapFS: the one file system in memory that has symlinks

	"golang.org/x/tools/txtar"

	"github.com/openberth/berth/fault"
)

// arrow parts the name of a symlink from its target in the name of an entry.
const arrow = " -> "

// What Capture keeps of a device. It keeps more than Read needs, so that an old capture can answer new questions.
var (
	keptFiles = []string{"vendor", "device", "class", "subsystem_vendor", "subsystem_device", "revision", "numa_node",
		"sriov_totalvfs", "sriov_numvfs", "sriov_vf_device"}
	keptLinks = []string{"driver", "iommu_group", "physfn"}
)

// serialEntry ends the name of an entry that stands for a vpd file, which is no text: it has the serial number alone.
const serialEntry = ".SN"

//go:embed sample.txtar
var sample []byte

// Sample is a captured machine with two NVMe PFs of four VFs each on two NUMA nodes, a NIC and a plain device: what a tour shows
// on a machine that has no PCI devices to offer.
func Sample() (fs.FS, error) { return Load(sample) }

// Capture keeps the PCI part of a machine as a text archive in the txtar format: a file is an entry named by its path under /sys,
// a symlink an entry named "path -> target" without content. MAC addresses and serial numbers are written as zeros; nothing
// else in it names the machine. Load is the inverse. Invalid when there is no device to keep.
func Capture(fsys fs.FS) ([]byte, error) {
	c := capture{fsys: fsys}
	c.archive.Comment = []byte("The PCI part of /sys: files by their path, symlinks as \"path -> target\".\n")
	entries, err := fs.ReadDir(fsys, deviceDir)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "sysfs.Capture", "cannot list PCI devices: %w", err)
	}
	real := make([]string, len(entries))
	for i, entry := range entries {
		real[i] = path.Join(deviceDir, entry.Name())
		if target := c.link(real[i]); target != "" {
			real[i] = path.Join(deviceDir, target)
		}
	}
	for _, dir := range real {
		c.device(dir)
	}
	if !slices.ContainsFunc(c.archive.Files, func(f txtar.File) bool { return ofDevice(f.Name) }) {
		return nil, fault.New(fault.Invalid, "sysfs.Capture", "there is no PCI device in %s to capture", deviceDir)
	}
	if nodes, err := fs.ReadDir(fsys, nodeDir); err == nil {
		for _, node := range nodes {
			if _, isNode := nodeNumber(node.Name()); isNode {
				c.node(node.Name())
			}
		}
	}
	for _, name := range c.names(vdpaDir) {
		c.link(path.Join(vdpaDir, name))
	}
	return txtar.Format(&c.archive), nil
}

// ofDevice says whether an entry lies in the list of devices.
func ofDevice(name string) bool { return strings.HasPrefix(name, deviceDir+"/") }

// capture collects an archive. What cannot be read is left out, as on a host where it is not there.
type capture struct {
	fsys    fs.FS
	archive txtar.Archive
}

func (c *capture) add(name, data string) {
	if data != "" && !strings.HasSuffix(data, "\n") {
		data += "\n"
	}
	c.archive.Files = append(c.archive.Files, txtar.File{Name: name, Data: []byte(data)})
}

func (c *capture) file(name string) {
	if data, err := fs.ReadFile(c.fsys, name); err == nil && !strings.Contains(string(data), "\n-- ") {
		c.add(name, string(data))
	}
}

func (c *capture) link(name string) (target string) {
	target, err := fs.ReadLink(c.fsys, name)
	if err != nil {
		return ""
	}
	c.add(name+arrow+target, "")
	return target
}

// node keeps what Read needs of a NUMA node and of its CPUs.
func (c *capture) node(name string) {
	dir := path.Join(nodeDir, name)
	c.file(path.Join(dir, "cpulist"))
	if text, err := readOptional(c.fsys, path.Join(dir, "meminfo")); err == nil {
		for line := range strings.Lines(text) { // the rest changes from one moment to the next
			if strings.Contains(line, "MemTotal:") {
				c.add(path.Join(dir, "meminfo"), line)
			}
		}
	}
	if sizes, err := fs.ReadDir(c.fsys, path.Join(dir, "hugepages")); err == nil {
		for _, size := range sizes {
			c.file(path.Join(dir, "hugepages", size.Name(), "nr_hugepages"))
		}
	}
	text, err := readOptional(c.fsys, path.Join(dir, "cpulist"))
	if err != nil {
		return
	}
	cpus, err := ParseCPUList(text)
	if err != nil {
		return
	}
	for _, cpu := range cpus {
		for _, file := range []string{"physical_package_id", "thread_siblings_list"} {
			c.file(path.Join(cpuDir, "cpu"+strconv.Itoa(cpu), "topology", file))
		}
	}
}

func (c *capture) names(dir string) []string {
	entries, err := fs.ReadDir(c.fsys, dir)
	if err != nil {
		return nil
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func (c *capture) device(dir string) {
	for _, file := range keptFiles {
		c.file(path.Join(dir, file))
	}
	for _, link := range keptLinks {
		c.link(path.Join(dir, link))
	}
	entries, err := fs.ReadDir(c.fsys, dir)
	if err != nil {
		return
	}
	if serial, err := readSerial(c.fsys, dir); err == nil && serial != "" {
		c.add(path.Join(dir, "vpd"+serialEntry), "0")
	}
	c.net(dir)
	for _, entry := range entries {
		switch name := entry.Name(); {
		case strings.HasPrefix(name, "virtfn"):
			c.link(path.Join(dir, name))
		case strings.HasPrefix(name, "virtio") && entry.IsDir():
			c.net(path.Join(dir, name))
		}
	}
}

func (c *capture) net(dir string) {
	entries, err := fs.ReadDir(c.fsys, path.Join(dir, "net"))
	if err != nil {
		return
	}
	for _, entry := range entries {
		c.add(path.Join(dir, "net", entry.Name(), "address"), "00:00:00:00:00:00")
	}
}

// Load makes a file system of a captured machine. Invalid when an entry is there twice or inside another one, or when
// a symlink has content, leaves /sys, or leads through another symlink, which none of the kernel's does here, and when there is no device.
func Load(archive []byte) (fs.FS, error) {
	fsys := fstest.MapFS{}
	for _, file := range txtar.Parse(archive).Files {
		name, target, isLink := strings.Cut(file.Name, arrow)
		name, isSerial := strings.CutSuffix(name, serialEntry)
		if !fs.ValidPath(name) || name == "." {
			return nil, invalid("archive entry %q is no path under /sys", file.Name)
		}
		if _, twice := fsys[name]; twice {
			return nil, invalid("archive entry %q is there twice", name)
		}
		fsys[name] = &fstest.MapFile{Data: file.Data, Mode: 0o444}
		if isSerial {
			fsys[name].Data = formatSerial(strings.TrimSpace(string(file.Data)))
		}
		if isLink {
			if len(file.Data) > 0 {
				return nil, invalid("archive entry %q is a symlink and has content", file.Name)
			}
			fsys[name] = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink | 0o777}
		}
	}
	devices := false
	for name, file := range fsys {
		devices = devices || ofDevice(name)
		if above, inside := entryAbove(fsys, path.Dir(name)); inside {
			return nil, invalid("archive entry %q lies inside %q, which is no directory", name, above)
		}
		if file.Mode.Type() != fs.ModeSymlink {
			continue
		}
		target := path.Join(path.Dir(name), string(file.Data))
		if path.IsAbs(string(file.Data)) || !fs.ValidPath(target) || target == "." {
			return nil, invalid("archive symlink %q leads to %q, outside /sys", name, file.Data)
		}
		if above, inside := entryAbove(fsys, target); inside && fsys[above].Mode.Type() == fs.ModeSymlink {
			return nil, invalid("archive symlink %q leads through the symlink %q", name, above)
		}
	}
	if !devices {
		return nil, invalid("the archive has no device under %s: it is no captured machine", deviceDir)
	}
	return fsys, nil
}

// entryAbove finds the entry that a path names, or one that it would have to lie inside.
func entryAbove(fsys fstest.MapFS, name string) (above string, found bool) {
	for ; name != "."; name = path.Dir(name) {
		if _, found := fsys[name]; found {
			return name, true
		}
	}
	return "", false
}

// Package sysfs reads the PCI devices and NUMA nodes of a host from /sys, or from a file system with the same layout.
//
//	bus/pci/devices/<address>/{uevent,numa_node}, or {vendor,device,class,numa_node}             files
//	bus/pci/devices/<address>/{sriov_totalvfs,sriov_numvfs,sriov_vf_device}                      files of a PF
//	bus/pci/devices/<address>/{driver,iommu_group,physfn}                                        symlinks
//	bus/pci/devices/<address>/net, …/virtio<n>/net                                               interface names
//	bus/pci/devices/<address>/vpd                                                                serial number
//	bus/vdpa/devices/<name>                                                                      symlinks through VFs
//	devices/system/node/node<n>/{cpulist,meminfo}, …/hugepages/hugepages-<size>kB/nr_hugepages   a NUMA node
//	devices/system/cpu/cpu<n>/topology/{physical_package_id,thread_siblings_list}                sockets and cores
//
// This file reads devices, node.go NUMA nodes, vpd.go serial numbers; file.go reads single files; parse.go parses
// their content; capture.go writes a machine as text, archive.go loads it. On a running host any file may vanish
// during the read, so a device that cannot be read never loses the others: it becomes a Problem.
package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// Directories under /sys.
const (
	deviceDir = "bus/pci/devices"
	vdpaDir   = "bus/vdpa/devices"
	nodeDir   = "devices/system/node"
)

// reading is what has been read so far.
type reading struct{ facts.Facts }

// Source is the source of facts for a /sys.
type Source struct {
	FS   fs.FS
	Name string // for messages, such as its path
}

// Check implements facts.Source.
func (s Source) Check() error { return Check(s.FS, s.Name) }

// Read implements facts.Source. Serial numbers are read only of the devices that a rule may match.
func (s Source) Read(rules pci.Rules) (facts.Facts, error) {
	found, err := Read(s.FS)
	if err == nil {
		ReadSerials(&found, s.FS, rules.NeedSerial)
	}
	return found, err
}

// Read reads a machine. The root of fsys is /sys: os.DirFS("/sys"), or the result of Load. fsys must be an
// fs.ReadLinkFS. Unavailable when the list of devices cannot be read or does not exist: a directory without the layout
// of /sys is an error, not a machine without devices.
func Read(fsys fs.FS) (facts.Facts, error) {
	const op = "sysfs.Read"
	if _, ok := fsys.(fs.ReadLinkFS); !ok {
		return facts.Facts{}, fault.New(fault.Internal, op, "a %T cannot read symlinks, of which /sys is made", fsys)
	}
	entries, err := fs.ReadDir(fsys, deviceDir)
	if err != nil {
		return facts.Facts{}, fault.New(fault.Unavailable, op, "cannot list PCI devices in %s: %w", deviceDir, err)
	}
	var r reading
	listed := make(map[string]bool, len(entries))
	for _, entry := range entries {
		listed[entry.Name()] = true
	}
	unplaced := map[pci.Address]bool{}
	for _, entry := range entries {
		r.device(fsys, entry.Name(), listed, unplaced)
	}
	nodes, err := r.nodes(fsys)
	if err != nil {
		return facts.Facts{}, fault.New(fault.Unavailable, op, "cannot list NUMA nodes in %s: %w", nodeDir, err)
	}
	slices.SortFunc(r.Devices, func(a, b pci.Device) int { return a.Address.Compare(b.Address) })
	r.place(nodes, unplaced)
	r.vdpa(fsys)
	return r.Facts, nil
}

// Check returns Invalid when fsys has no list of devices, for a start that should not wait for it; name names fsys in
// the message, such as its path. Other errors are left to Read.
func Check(fsys fs.FS, name string) error {
	info, err := fs.Stat(fsys, deviceDir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return fault.New(fault.Invalid, "sysfs.Check", "%s has no %s: it is not shaped like /sys", name, deviceDir)
	}
	return nil
}

func (f *reading) problem(name, format string, args ...any) {
	f.Problems = append(f.Problems, facts.Problem{Name: printable(name), Sentence: fmt.Sprintf(format, args...)})
}

// unreadable adds the problem that a device exists and cannot be identified.
func (f *reading) unreadable(name string, why error) {
	f.problem(name, "%s, so the device is unreadable: it stays as it was last read, or is not offered if the agent "+
		"never read it, and a server that holds it keeps it; look for it in the kernel log, and let the agent read "+
		"its files", fault.TextOf(why))
	f.Problems[len(f.Problems)-1].Unreadable = true
}

// device adds one device, or the problem with it. It adds a device without a file numa_node to unplaced.
func (f *reading) device(fsys fs.FS, name string, listed map[string]bool, unplaced map[pci.Address]bool) {
	if _, err := pci.ParseAddress(name); err != nil {
		f.problem(name, "is not a PCI address such as 0000:3b:00.1: the entry of %s is ignored; find out which "+
			"program or driver made it", deviceDir)
		return
	}
	dir := path.Join(deviceDir, name)
	r, err := readDevice(fsys, dir)
	if err != nil {
		_, gone := fs.Stat(fsys, dir)
		if absent(gone) || errors.Is(err, syscall.ENODEV) { // the latter: it vanished while its file was open
			f.problem(name, "vanished while it was read: it stays as it was last read until the agent reads the host "+
				"again; rescan the PCI bus if it should exist")
			return
		}
		f.unreadable(name, err)
		return
	}
	d, doubts, err := parseDevice(name, r)
	if err != nil {
		f.unreadable(name, err)
		return
	}
	for _, doubt := range doubts {
		f.problem(name, "%s", doubt)
	}
	if d.Parent != nil && !listed[r.physfn] {
		f.problem(name, "physfn leads to %s, which does not exist: the VF is offered like other VFs; rescan the PCI "+
			"bus, or make the VFs again", printable(r.physfn))
	}
	if !r.numaNode.there && !d.IsBridge() {
		unplaced[d.Address] = true
	}
	f.Devices = append(f.Devices, d)
}

// raw is the content of the files of one device. Texts are "" when there is no such file.
type raw struct {
	vendor, device, class      string
	numaNode                   attribute
	totalVFs, numVFs, vfDevice attribute
	driver, group, physfn      string // last elements of what the symlinks point to
	net                        []string
}

// readDevice reads as few files as possible: uevent has the content of four others, a VF has no VFs of its own, and a
// device without sriov_totalvfs has no sriov_numvfs. The error names the file.
func readDevice(fsys fs.FS, dir string) (r raw, err error) {
	complete, err := readUevent(fsys, dir, &r)
	if !complete && err == nil {
		err = readNumbers(fsys, dir, &r)
	}
	if err != nil {
		return r, err
	}
	for _, link := range []struct {
		name string
		to   *string
	}{{"physfn", &r.physfn}, {"iommu_group", &r.group}, {"driver", &r.driver}} {
		if complete && link.name == "driver" {
			continue
		}
		if *link.to, err = readLink(fsys, path.Join(dir, link.name)); err != nil {
			return r, failed(link.name, err)
		}
	}
	if err := readAttributes(fsys, dir, &r); err != nil {
		return r, err
	}
	r.net, err = readNet(fsys, dir, r.driver == "virtio-pci")
	return r, err
}

// readAttributes reads the files that a device may lack.
func readAttributes(fsys fs.FS, dir string, r *raw) (err error) {
	for _, file := range []struct {
		name  string
		to    *attribute
		ofAPF bool
	}{{"numa_node", &r.numaNode, false}, {"sriov_totalvfs", &r.totalVFs, false}, {"sriov_numvfs", &r.numVFs, true},
		{"sriov_vf_device", &r.vfDevice, true}} {
		if file.name == "sriov_totalvfs" && r.physfn != "" || file.ofAPF && !r.totalVFs.there {
			continue
		}
		if *file.to, err = readAttribute(fsys, path.Join(dir, file.name)); err != nil {
			return failed(file.name, err)
		}
	}
	return nil
}

// readUevent reads numbers and driver from the device's uevent. complete is false when it lacks some of them, does not
// exist or may not be read.
func readUevent(fsys fs.FS, dir string, r *raw) (complete bool, err error) {
	uevent, err := readAttribute(fsys, path.Join(dir, "uevent"))
	if errors.Is(err, fs.ErrPermission) {
		return false, nil
	}
	if err != nil {
		return false, failed("uevent", err)
	}
	u := parseUevent(uevent.text)
	vendor, device, ok := strings.Cut(u["PCI_ID"], ":")
	if !ok || u["PCI_CLASS"] == "" {
		return false, nil
	}
	r.vendor, r.device, r.class, r.driver = "0x"+vendor, "0x"+device, u["PCI_CLASS"], u["DRIVER"]
	return true, nil
}

func readNumbers(fsys fs.FS, dir string, r *raw) error {
	for _, file := range []struct {
		name string
		to   *string
	}{{"vendor", &r.vendor}, {"device", &r.device}, {"class", &r.class}} {
		content, err := readAttribute(fsys, path.Join(dir, file.name))
		if err != nil {
			return failed(file.name, err)
		}
		if !content.there {
			return fmt.Errorf("%s is missing", file.name)
		}
		*file.to = content.text
	}
	return nil
}

// readNet lists the network interfaces of a device. Those of a virtio device are under the virtio device that it
// carries.
func readNet(fsys fs.FS, dir string, virtio bool) ([]string, error) {
	if virtio {
		name, err := virtioName(fsys, dir)
		if name == "" || err != nil {
			return nil, err
		}
		dir = path.Join(dir, name)
	}
	entries, err := list(fsys, path.Join(dir, "net"))
	if err != nil {
		return nil, failed("net", err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, nil
}

// virtioName returns the name of the virtio device that a PCI device carries, such as virtio2, or "".
func virtioName(fsys fs.FS, dir string) (string, error) {
	entries, err := list(fsys, dir)
	if err != nil {
		return "", failed("its directory", err)
	}
	for _, entry := range entries {
		if isVirtio(entry) {
			return entry.Name(), nil
		}
	}
	return "", nil
}

// isVirtio reports whether an entry of a device's directory is the directory of a virtio device.
func isVirtio(entry fs.DirEntry) bool {
	digits, is := strings.CutPrefix(entry.Name(), "virtio")
	_, err := strconv.ParseUint(digits, 10, 32)
	return is && err == nil && entry.IsDir()
}

// vdpa marks the VFs that carry a vDPA device: the kernel has each below the PCI device that it was made of.
func (f *reading) vdpa(fsys fs.FS) {
	entries, err := list(fsys, vdpaDir)
	if err != nil {
		f.problem("vdpa", "%s cannot be listed (%v): VFs that carry a vDPA device are taken as ordinary ones; let "+
			"the agent read it", vdpaDir, err)
	}
	for _, entry := range entries {
		target, err := fs.ReadLink(fsys, path.Join(vdpaDir, entry.Name()))
		if absent(err) {
			continue // it vanished since it was listed
		}
		if err != nil {
			f.problem(entry.Name(), "this entry of %s cannot be read (%v): the VF that carries the vDPA device is "+
				"taken as an ordinary one; let the agent read it", vdpaDir, linkReason(err))
			continue
		}
		carrier, found := lastAddress(target)
		for i := range f.Devices {
			if d := &f.Devices[i]; found && d.Address == carrier && d.Type == pci.Virtual {
				d.Type = pci.VDPA
			}
		}
	}
}

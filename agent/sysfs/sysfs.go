// Package sysfs reads the PCI devices and NUMA nodes of a host from /sys, or from anything shaped like it.
//
//	bus/pci/devices/<address>/{uevent,numa_node}, or {vendor,device,class,numa_node}             files
//	bus/pci/devices/<address>/{sriov_totalvfs,sriov_numvfs,sriov_vf_device}                      files of a PF
//	bus/pci/devices/<address>/{driver,iommu_group,physfn}                                        symlinks
//	bus/pci/devices/<address>/net, …/virtio<n>/net                                               names of interfaces
//	bus/pci/devices/<address>/vpd                                                                serial number of the card
//	bus/vdpa/devices/<name>                                                                      symlinks through the VF below
//	devices/system/node/node<n>/{cpulist,meminfo}, …/hugepages/hugepages-<size>kB/nr_hugepages   a NUMA node
//	devices/system/cpu/cpu<n>/topology/{physical_package_id,thread_siblings_list}                sockets and cores
//
// This file reads; node.go does so with NUMA nodes, vpd.go with serial numbers; parse.go understands what was read; archive.go keeps
// a machine as text. On a running host everything may vanish while it is read, so one device that cannot be read never loses the
// others: it becomes a Problem.
package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// Where things lie under /sys.
const (
	deviceDir = "bus/pci/devices"
	vdpaDir   = "bus/vdpa/devices"
	nodeDir   = "devices/system/node"
)

// Facts are what was read.
type Facts struct {
	Devices  []pci.Device // by address
	Nodes    []Node       // by number
	Problems []Problem    // what could not be read or understood, by name
}

// Problem is a sentence about one device or NUMA node.
type Problem struct {
	Name     string // as in the directory: an address, or such as node0
	Sentence string
}

// String prints the problem as a sentence.
func (p Problem) String() string { return p.Name + ": " + p.Sentence }

// Read reads a machine. The root of fsys is /sys: os.DirFS("/sys"), or what Load gives. fsys must be an fs.ReadLinkFS. Unavailable
// when the list of devices cannot be read or is not there: what is not shaped like /sys is never a machine without devices.
func Read(fsys fs.FS) (Facts, error) {
	const op = "sysfs.Read"
	if _, ok := fsys.(fs.ReadLinkFS); !ok {
		return Facts{}, fault.New(fault.Internal, op, "a %T cannot read symlinks, of which /sys is made", fsys)
	}
	entries, err := fs.ReadDir(fsys, deviceDir)
	if err != nil {
		return Facts{}, fault.New(fault.Unavailable, op, "cannot list PCI devices in %s: %w", deviceDir, err)
	}
	var facts Facts
	listed := make(map[string]bool, len(entries))
	for _, entry := range entries {
		listed[entry.Name()] = true
	}
	for _, entry := range entries {
		facts.device(fsys, entry.Name(), listed)
	}
	nodes, err := facts.nodes(fsys)
	if err != nil {
		return Facts{}, fault.New(fault.Unavailable, op, "cannot list NUMA nodes: %w", err)
	}
	slices.SortFunc(facts.Devices, func(a, b pci.Device) int { return a.Address.Compare(b.Address) })
	facts.place(nodes)
	facts.vdpa(fsys)
	return facts, nil
}

// Check refuses what is not shaped like /sys, for a start that should not wait for it to become so; name is what people call it, such
// as its path. Invalid when it has no list of devices; what cannot be looked at now is left to Read.
func Check(fsys fs.FS, name string) error {
	info, err := fs.Stat(fsys, deviceDir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return fault.New(fault.Invalid, "sysfs.Check", "%s has no %s: it is not shaped like /sys", name, deviceDir)
	}
	return nil
}

func (f *Facts) problem(name, format string, args ...any) {
	f.Problems = append(f.Problems, Problem{Name: name, Sentence: fmt.Sprintf(format, args...)})
}

// device adds one device, or the problem with it.
func (f *Facts) device(fsys fs.FS, name string, listed map[string]bool) {
	r, err := readDevice(fsys, path.Join(deviceDir, name))
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV): // the latter says a file that was open already
		f.problem(name, "vanished while it was read (%v)", err)
		return
	case err != nil:
		f.problem(name, "cannot be read: %v", err)
		return
	}
	d, doubts, err := parseDevice(name, r)
	if err != nil {
		f.problem(name, "is left out: %s", fault.TextOf(err))
		return
	}
	for _, doubt := range doubts {
		f.problem(name, "%s", doubt)
	}
	if d.Parent != nil && !listed[r.physfn] {
		f.problem(name, "is a VF of %s, which is not there", r.physfn)
	}
	f.Devices = append(f.Devices, d)
}

// raw is what the files of one device say, "" for a file that is not there.
type raw struct {
	vendor, device, class, numaNode string
	totalVFs, numVFs, vfDevice      string
	driver, group, physfn           string // last elements of what the symlinks point to
	net                             []string
}

// readDevice reads as few files as will do: uevent says what four others do, a VF has no VFs of its own, and what has no totalVFs
// has no numVFs.
func readDevice(fsys fs.FS, dir string) (r raw, err error) {
	told, err := readUevent(fsys, dir, &r)
	if !told && err == nil {
		err = readNumbers(fsys, dir, &r)
	}
	if err != nil {
		return r, err
	}
	for _, link := range []struct {
		name string
		to   *string
	}{{"physfn", &r.physfn}, {"iommu_group", &r.group}, {"driver", &r.driver}} {
		if told && link.name == "driver" {
			continue
		}
		if *link.to, err = readLink(fsys, path.Join(dir, link.name)); err != nil {
			return r, err
		}
	}
	if r.numaNode, err = readOptional(fsys, path.Join(dir, "numa_node")); err != nil {
		return r, err
	}
	if r.physfn == "" {
		if r.totalVFs, err = readOptional(fsys, path.Join(dir, "sriov_totalvfs")); err != nil {
			return r, err
		}
	}
	if r.totalVFs != "" {
		if r.numVFs, err = readOptional(fsys, path.Join(dir, "sriov_numvfs")); err != nil {
			return r, err
		}
		if r.vfDevice, err = readOptional(fsys, path.Join(dir, "sriov_vf_device")); err != nil {
			return r, err
		}
	}
	r.net, err = readNet(fsys, dir, r.driver == "virtio-pci")
	return r, err
}

// readUevent reads numbers and driver from the device's uevent. A captured machine has none, and some kernel may say less than that.
func readUevent(fsys fs.FS, dir string, r *raw) (told bool, err error) {
	text, err := readOptional(fsys, path.Join(dir, "uevent"))
	if errors.Is(err, fs.ErrPermission) {
		return false, nil
	}
	if text == "" || err != nil {
		return false, err
	}
	u := parseUevent(text)
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
		data, err := fs.ReadFile(fsys, path.Join(dir, file.name))
		if err != nil {
			return err
		}
		*file.to = strings.TrimSpace(string(data))
	}
	return nil
}

// readNet lists the network interfaces of a device. Those of a virtio device lie under the virtio device that it carries.
func readNet(fsys fs.FS, dir string, virtio bool) ([]string, error) {
	if virtio {
		name, err := virtioName(fsys, dir)
		if name == "" || err != nil {
			return nil, err
		}
		dir = path.Join(dir, name)
	}
	entries, err := fs.ReadDir(fsys, path.Join(dir, "net"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, nil
}

// virtioName is the name of the virtio device that a PCI device carries, such as virtio2, or "".
func virtioName(fsys fs.FS, dir string) (string, error) {
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return "", err
	}
	for _, entry := range entries {
		if entry.IsDir() && strings.HasPrefix(entry.Name(), "virtio") {
			return entry.Name(), nil
		}
	}
	return "", nil
}

func readOptional(fsys fs.FS, name string) (string, error) {
	data, err := fs.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(data)), err
}

// readLink gives the last element of what a symlink points to, or "" when it is not there.
func readLink(fsys fs.FS, name string) (string, error) {
	target, err := fs.ReadLink(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return path.Base(target), nil
}

// vdpa marks the VFs that carry a vDPA device: the kernel keeps each under the PCI device that it was made of.
func (f *Facts) vdpa(fsys fs.FS) {
	entries, err := fs.ReadDir(fsys, vdpaDir)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		f.problem("vdpa", "vDPA devices cannot be listed; VFs that carry one are taken as ordinary ones: %v", err)
	}
	for _, entry := range entries {
		target, err := fs.ReadLink(fsys, path.Join(vdpaDir, entry.Name()))
		if err != nil {
			f.problem(entry.Name(), "it cannot be read which VF carries this vDPA device: %v", err)
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

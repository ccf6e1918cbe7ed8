// Package sysfs reads the PCI devices, network interfaces and NUMA nodes of a host from /sys, or from a file system
// with the same layout.
//
//	bus/pci/devices/<address>/{uevent,numa_node}, or {vendor,device,class,numa_node}             files
//	bus/pci/devices/<address>/{sriov_totalvfs,sriov_numvfs,sriov_vf_device}                      files of a PF
//	bus/pci/devices/<address>/{driver,iommu_group,physfn}                                        symlinks
//	bus/pci/devices/<address>/net, …/virtio<n>/net                                               interface names
//	bus/pci/devices/<address>/vpd                                                                serial number
//	bus/vdpa/devices/<name>                                                                      symlinks through VFs
//	class/net/<name>/{speed,master,bonding}                                                      an interface
//	devices/system/node/node<n>/{cpulist,meminfo,distance}                                       a NUMA node
//	devices/system/node/node<n>/hugepages/hugepages-<size>kB/nr_hugepages                        its huge pages
//	devices/pci<domain>:<bus>/<address>/…/<address>                                              path to a device
//	devices/system/cpu/cpu<n>/topology/{physical_package_id,thread_siblings_list}                sockets and cores
//
// read_device.go reads devices, read_ports.go the PCIe ports above them, read_nics.go network interfaces,
// read_numa_nodes.go NUMA nodes, vpd_serial_numbers.go serial numbers; read_files_links_lists.go reads single files;
// parse_device.go and parse_cpu_list.go parse their content; capture_sysfs.go writes a machine as text, load_capture.go
// loads it. On a running host any file may vanish during the read, so a device that cannot be read never loses the
// others: it becomes a Problem.
package sysfs

import (
	"errors"
	"io/fs"
	"slices"

	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

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
	if _, ok := fsys.(fs.ReadLinkFS); !ok {
		return facts.Facts{}, fault.New(fault.Internal, "a %T cannot read symlinks, of which /sys is made", fsys)
	}
	entries, err := fs.ReadDir(fsys, deviceDir)
	if err != nil {
		return facts.Facts{}, fault.New(fault.Unavailable, "cannot list PCI devices in %s: %w", deviceDir, err)
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
		return facts.Facts{}, fault.New(fault.Unavailable, "cannot list NUMA nodes in %s: %w", nodeDir, err)
	}
	slices.SortFunc(r.Devices, func(a, b pci.Device) int { return a.Address.Compare(b.Address) })
	r.place(nodes, unplaced)
	r.vdpa(fsys)
	r.nics(fsys)
	return r.Facts, nil
}

// Check returns Invalid when fsys has no list of devices, for a start that should not wait for it; name names fsys in
// the message, such as its path. Other errors are left to Read.
func Check(fsys fs.FS, name string) error {
	info, err := fs.Stat(fsys, deviceDir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return fault.New(fault.Invalid, "%s has no %s: it is not shaped like /sys", name, deviceDir)
	}
	return nil
}

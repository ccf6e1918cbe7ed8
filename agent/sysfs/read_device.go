package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"syscall"

	"github.com/openberth/berth/pci"
)

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
	if at, _, ordinary := directoryOf(fsys, name); ordinary {
		d.Bridges = bridgesAbove(at)
	}
	if !r.numaNode.there && !d.IsBridge() {
		unplaced[d.Address] = true
	}
	f.Devices = append(f.Devices, d)
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
	for _, file := range r.files() {
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

package sysfs

import (
	"io/fs"
	"maps"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/pci"
)

// nics adds the network interfaces, after the devices. Those of a VF have no speed, and the others only with a device
// or as a bond: a host may have hundreds of VFs and of virtual interfaces, and a driver may ask the card for each.
func (f *reading) nics(fsys fs.FS) {
	found := map[string]*facts.NIC{}
	virtual := map[string]bool{} // of VFs
	for i, d := range f.Devices {
		isVirtual := d.Type == pci.Virtual || d.Type == pci.VDPA
		for _, name := range d.Net {
			address := d.Address
			found[name] = &facts.NIC{Name: name, Address: &address}
			virtual[name] = isVirtual
		}
		if !isVirtual && len(d.Net) > 0 {
			if mac := macOf(fsys, path.Join(deviceDir, d.Address.String(), "net", d.Net[0])); mac != noMAC {
				f.Devices[i].PFMAC = mac
			}
		}
	}
	names, err := interfaces(fsys)
	if err != nil {
		f.problem("net", "%s cannot be listed (%v): only interfaces of PCI devices are found; let the agent read it",
			netDir, err)
	}
	f.NICsRead = err == nil
	for _, name := range names {
		if found[name] == nil {
			found[name] = &facts.NIC{Name: name}
		}
		dir := path.Join(netDir, name)
		nic := found[name]
		nic.Master, _ = readLink(fsys, path.Join(dir, "master"))
		bonding, err := fs.Stat(fsys, path.Join(dir, "bonding"))
		nic.Bond = err == nil && bonding.IsDir()
		if nic.Bond || nic.Address != nil && !virtual[name] {
			nic.SpeedMbps = speed(fsys, dir)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		f.NICs = append(f.NICs, *found[name])
	}
}

// noMAC is the address of an interface that has none. Captures have it too.
const noMAC = "00:00:00:00:00:00"

// macOf returns the MAC address of a network interface with this directory, or "".
func macOf(fsys fs.FS, dir string) string {
	text, err := readAttribute(fsys, path.Join(dir, "address"))
	if err != nil {
		return ""
	}
	mac, err := net.ParseMAC(text.text)
	if err != nil {
		return ""
	}
	return mac.String()
}

// interfaces lists the names of network interfaces. Files such as bonding_masters are no interfaces.
func interfaces(fsys fs.FS) (names []string, err error) {
	entries, err := list(fsys, netDir)
	for _, entry := range entries {
		info, err := fs.Stat(fsys, path.Join(netDir, entry.Name()))
		if err == nil && info.IsDir() {
			names = append(names, entry.Name())
		}
	}
	return names, err
}

// speed returns the speed of a link in megabits per second, or 0. The kernel refuses to read it while the link is down,
// or has -1.
func speed(fsys fs.FS, dir string) int {
	text, err := readAttribute(fsys, path.Join(dir, "speed"))
	if err != nil {
		return 0
	}
	n, err := strconv.ParseUint(text.text, 10, 31)
	if err != nil {
		return 0
	}
	return int(n)
}

// nics captures the network interfaces. What cannot be read is left out, because Read takes it as unknown.
func (c *capture) nics() {
	names, err := interfaces(c.fsys)
	if err != nil {
		c.put(netDir, "/"+unreadableMark+escapeReason(err.Error()), "")
	}
	for _, name := range names {
		dir, before := path.Join(netDir, name), len(c.archive.Files)
		if data, there, err := readData(c.fsys, path.Join(dir, "speed")); err == nil && there {
			c.put(path.Join(dir, "speed"), "", strings.TrimSpace(string(data)))
		}
		if master, err := readLink(c.fsys, path.Join(dir, "master")); err == nil && master != "" {
			c.link(path.Join(dir, "master"), path.Join(dir, "master"))
		}
		if info, err := fs.Stat(c.fsys, path.Join(dir, "bonding")); err == nil && info.IsDir() {
			c.put(path.Join(dir, "bonding"), "/", "")
		}
		c.ensure(dir, before)
	}
}

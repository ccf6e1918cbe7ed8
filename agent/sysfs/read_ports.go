package sysfs

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/openberth/berth/pci"
)

// directoryOf returns the directory of a device. It is ordinary when the entry in the list of devices is a link as the
// kernel makes it: relative, to a directory below devices/ that has the device's name and is not inside anything that
// is read of another device. Otherwise the place of the device among PCIe ports is unknown, and it is captured as a
// directory in the list.
func directoryOf(fsys fs.FS, name string) (at, target string, ordinary bool) {
	entry := path.Join(deviceDir, name)
	target, err := fs.ReadLink(fsys, entry)
	at = path.Join(deviceDir, target)
	parts := strings.Split(at, "/")
	if err != nil || path.IsAbs(target) || !fs.ValidPath(at) || parts[0] != "devices" || path.Base(at) != name {
		return entry, "", false
	}
	for _, part := range parts[1:] {
		if slices.Contains([]string{"system", "net", "vpd", "uevent"}, part) || strings.HasPrefix(part, "virt") ||
			slices.Contains(keptFiles, part) || slices.Contains(keptLinks, part) {
			return entry, "", false
		}
	}
	return at, target, true
}

// bridgesAbove returns the PCIe ports and bridges above a device, from the child of the host bridge down to the one
// that it hangs on, from the path of its directory: devices/pci0000:80/0000:80:01.0/0000:81:00.0.
func bridgesAbove(directory string) (bridges []pci.Address) {
	found := false
	for part := range strings.SplitSeq(path.Dir(directory), "/") {
		if isHostBridge(part) { // the last one: a VMD controller has a host bridge of its own below it
			found, bridges = true, nil
		} else if at, err := pci.ParseAddress(part); err == nil && found {
			bridges = append(bridges, at)
		}
	}
	return bridges
}

// isHostBridge reports whether the name of a directory is that of a host bridge, such as pci0000:80.
func isHostBridge(name string) bool {
	bus, is := strings.CutPrefix(name, "pci")
	_, err := pci.ParseAddress(bus + ":00.0")
	return is && err == nil
}

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

// Health is what /sys shows of the health of a PCI device.
type Health struct {
	Exists  bool
	VF      bool
	Silent  bool // it does not answer: its configuration space reads as ones
	Counted bool // it has the capability Advanced Error Reporting, whose errors the kernel counts
	// Since the device was found, which is at the latest the boot of the host.
	Fatal    int64
	Nonfatal int64 // uncorrectable ones that are not fatal
}

// ReadHealth reads the health of a device. A device without a directory is not an error. The error names the file.
func ReadHealth(fsys fs.FS, at pci.Address) (h Health, err error) {
	dir := path.Join(deviceDir, at.String())
	if _, err := fs.Stat(fsys, dir); err != nil {
		if absent(err) {
			return h, nil
		}
		return h, failed("its directory", reason(err))
	}
	h.Exists = true
	physfn, err := readLink(fsys, path.Join(dir, "physfn"))
	if err != nil {
		return h, failed("physfn", err)
	}
	h.VF = physfn != ""
	if h.Silent, err = silent(fsys, dir, h.VF); err != nil {
		return h, err
	}
	for _, file := range []struct {
		name, line string
		to         *int64
	}{{"aer_dev_fatal", "TOTAL_ERR_FATAL", &h.Fatal}, {"aer_dev_nonfatal", "TOTAL_ERR_NONFATAL", &h.Nonfatal}} {
		counts, err := readAttribute(fsys, path.Join(dir, file.name))
		if err != nil {
			return h, failed(file.name, err)
		}
		if !counts.there {
			return h, nil // both files exist, or neither
		}
		if *file.to, err = total(counts.text, file.line); err != nil {
			return h, failed(file.name, err)
		}
	}
	h.Counted = true
	return h, nil
}

// silent reports whether a device does not answer: its vendor id reads as ffff, as pci_device_is_present of the kernel
// checks. VFs have no vendor id of their own. A device in D3cold is not read, because that would wake it.
func silent(fsys fs.FS, dir string, vf bool) (bool, error) {
	power, err := readAttribute(fsys, path.Join(dir, "power_state"))
	if err != nil {
		return false, failed("power_state", err)
	}
	if vf || power.text == "D3cold" {
		return false, nil
	}
	config, there, err := readData(fsys, path.Join(dir, "config"))
	switch {
	case errors.Is(err, syscall.EIO), errors.Is(err, syscall.ENODEV):
		return true, nil
	case err != nil:
		return false, failed("config", err)
	case !there || len(config) < 2:
		return false, nil
	}
	return config[0] == 0xff && config[1] == 0xff, nil
}

// total returns the number of a line of an error counter, such as "TOTAL_ERR_FATAL 0".
func total(text, line string) (int64, error) {
	for row := range strings.Lines(text) {
		name, number, found := strings.Cut(strings.TrimSpace(row), " ")
		if !found || name != line {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if err != nil || n < 0 {
			return 0, fmt.Errorf("%s is %q, which is not a count", line, number)
		}
		return n, nil
	}
	return 0, fmt.Errorf("it has no line %s", line)
}

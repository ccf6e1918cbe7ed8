package sysfs

import (
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/pci"
)

// ReadSerials reads the serial numbers of the devices for which want returns true, and of VFs their numbers and the MAC
// addresses of their PFs. Vital product data is read through a slow register, on some cards for a tenth of a second,
// and only by root.
func ReadSerials(found *facts.Facts, fsys fs.FS, want func(pci.Device) bool) {
	f := reading{*found}
	parents := map[pci.Address]parent{}
	for i := range f.Devices {
		d := &f.Devices[i]
		if !want(*d) {
			continue
		}
		serial, err := readSerial(fsys, path.Join(deviceDir, d.Address.String()))
		if err != nil {
			f.problem(d.Address.String(), "vpd cannot be read (%v): the serial number of its card is taken as "+
				"unknown, without which remote_managed does not offer it; run the agent as root", err)
			continue
		}
		d.Serial = serial
		if d.Parent == nil || serial == "" {
			continue
		}
		pf, known := parents[*d.Parent]
		if !known {
			pf = f.parent(fsys, *d.Parent)
			parents[*d.Parent] = pf
		}
		if number, is := pf.numbers[d.Address]; is {
			d.VFNumber, d.PFMAC = number, pf.mac
		}
	}
	found.Problems = f.Problems
}

// parent is what identifies the VFs of a PF.
type parent struct {
	mac     string // of its first network interface; empty: none
	numbers map[pci.Address]int
}

// parent reads the MAC address of a PF and the numbers of its VFs. What is missing is a problem.
func (f *reading) parent(fsys fs.FS, at pci.Address) parent {
	out := parent{numbers: map[pci.Address]int{}}
	dir := path.Join(deviceDir, at.String())
	for _, d := range f.Devices {
		if d.Address == at && len(d.Net) > 0 {
			out.mac = macOf(fsys, path.Join(dir, "net", d.Net[0]))
		}
	}
	if out.mac == "" {
		f.problem(at.String(), "the MAC address of this PF is unknown, so no port gets its VFs with remote_managed; bind "+
			"it to its driver for networks")
	}
	entries, err := list(fsys, dir)
	if err != nil {
		f.problem(at.String(), "its VFs cannot be listed (%v), so no port gets those with remote_managed", err)
	}
	for _, entry := range entries {
		digits, is := strings.CutPrefix(entry.Name(), "virtfn")
		number, notNumber := strconv.Atoi(digits)
		if !is || notNumber != nil {
			continue
		}
		if target, err := readLink(fsys, path.Join(dir, entry.Name())); err == nil {
			if address, err := pci.ParseAddress(target); err == nil {
				out.numbers[address] = number
			}
		}
	}
	return out
}

// readSerial returns the serial number of a device; "" when it has no vital product data, or no serial number in it.
func readSerial(fsys fs.FS, dir string) (string, error) {
	data, _, err := readData(fsys, path.Join(dir, "vpd"))
	return parseSerial(data), err
}

// Tags of vital product data (PCI Local Bus Specification 3.0, appendix I).
const (
	vpdLarge    = 0x80 // in a tag: two bytes of length follow
	vpdReadOnly = 0x90
	vpdEnd      = 0x0f // a small tag's name
)

// parseSerial returns the value of the keyword SN in the read-only part of vital product data.
func parseSerial(data []byte) string {
	for len(data) > 0 {
		tag := data[0]
		if tag&vpdLarge == 0 {
			if tag>>3 == vpdEnd {
				return ""
			}
			data = data[min(1+int(tag&7), len(data)):]
			continue
		}
		if len(data) < 3 {
			return ""
		}
		end := min(3+int(data[1])+int(data[2])<<8, len(data))
		if tag == vpdReadOnly {
			return keyword(data[3:end], "SN")
		}
		data = data[end:]
	}
	return ""
}

// keyword returns the text of a field, which has two letters, one byte of length and the text.
func keyword(fields []byte, name string) string {
	for len(fields) >= 3 {
		end := min(3+int(fields[2]), len(fields))
		if string(fields[:2]) == name {
			return strings.Trim(string(fields[3:end]), " \x00")
		}
		fields = fields[end:]
	}
	return ""
}

// formatSerial returns the shortest vital product data with a serial number. A captured machine has it in place of its
// own.
func formatSerial(serial string) []byte {
	serial = serial[:min(len(serial), 255)]
	fields := "SN" + string([]byte{byte(len(serial))}) + serial
	return append([]byte{vpdReadOnly, byte(len(fields)), byte(len(fields) >> 8)}, fields+string([]byte{vpdEnd << 3})...)
}

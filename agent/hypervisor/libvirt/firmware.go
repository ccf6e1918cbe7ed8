package libvirt

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/libvirt/domainxml"
	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
)

// The driver chooses the firmware of a guest with UEFI from QEMU's descriptions, as Nova does. libvirt 9 chooses it
// only when it starts a guest, makes a new NVRAM if that of a guest is missing, and reports nothing before. The NVRAM
// of a guest, the file with its boot entries and keys, is made with its disk, is beside it and moves with it.

// firmware is UEFI firmware of this host that can be used for a guest.
type firmware struct {
	loader   string // path of the code
	template string // path of the NVRAM of a new guest
	size     int64  // of the NVRAM in bytes
	secure   bool   // it requires signed boot loaders, and its template has the keys
}

// description is QEMU's description of firmware (docs/interop/firmware.json).
type description struct {
	Interfaces []string `json:"interface-types"`
	Mapping    struct {
		Device   string       `json:"device"`
		Mode     string       `json:"mode"` // empty: split
		Code     firmwareFile `json:"executable"`
		Template firmwareFile `json:"nvram-template"`
	} `json:"mapping"`
	Targets []struct {
		Architecture string   `json:"architecture"`
		Machines     []string `json:"machines"` // patterns
	} `json:"targets"`
	Features []string `json:"features"`
}

type firmwareFile struct {
	Name   string `json:"filename"`
	Format string `json:"format"`
}

// firmwareOf returns the firmware for a guest of this host and the path of its NVRAM. An NVRAM that exists decides
// whether a guest with optional secure boot has it, and which size the firmware's must have; size, if it is not 0, does
// so for an NVRAM that will be copied. The fault is Conflict if the host has no such firmware.
func (d directory) firmwareOf(domain uuid.UUID, g hypervisor.Guest, size int64) (found firmware, nvram string,
	err error) {
	choices := []bool{g.Hardware.SecureBoot != ""}
	if g.Hardware.SecureBoot == "optional" {
		choices = append(choices, false)
	}
	for _, secure := range choices {
		status, err := os.Stat(d.nvramPath(domain, g, secure))
		if err == nil {
			choices, size = []bool{secure}, status.Size()
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return found, "", fault.Wrap(fault.Unavailable, err)
		}
	}
	all := readFirmware(d.o.FirmwareDirs, g.Hardware.Machine)
	for _, secure := range choices {
		i := slices.IndexFunc(all, func(f firmware) bool { return f.secure == secure && (size == 0 || f.size == size) })
		if i >= 0 {
			return all[i], d.nvramPath(domain, g, secure), nil
		}
	}
	return found, "", d.noFirmware(g, choices[0], size)
}

// noFirmware is the fault of a host without firmware for a guest.
func (d directory) noFirmware(g hypervisor.Guest, secure bool, size int64) error {
	what := "UEFI firmware"
	if secure {
		what = "UEFI firmware with secure boot and enrolled keys"
	}
	if size > 0 {
		what += fmt.Sprintf(" for the guest's NVRAM of %d bytes", size)
	}
	return fault.New(fault.Conflict, "the guest %s cannot boot: this host has no %s described in %s; install "+
		"it (Debian: apt-get install ovmf)", g.ID, what, strings.Join(d.o.FirmwareDirs, " or "))
}

// nvramPath returns the path of a guest's NVRAM. A rebuilt guest has another one, and so has one whose secure boot
// begins: an NVRAM without keys has no effect on boot loaders.
func (d directory) nvramPath(domain uuid.UUID, g hypervisor.Guest, secure bool) string {
	return d.path(domain.String(), nvramName(g.Build, secure))
}

// readFirmware returns the firmware that is described in directories for a machine type, in QEMU's order of preference.
// Descriptions that cannot be read, and those of files that do not exist, are left out.
func readFirmware(dirs []string, machine string) (list []firmware) {
	paths := map[string]string{}
	for _, dir := range dirs {
		files, _ := filepath.Glob(filepath.Join(dir, "*.json")) // the pattern is valid
		for _, file := range files {
			paths[filepath.Base(file)] = file
		}
	}
	for _, name := range slices.Sorted(maps.Keys(paths)) {
		text, err := os.ReadFile(paths[name])
		var one description
		if err != nil || json.Unmarshal(text, &one) != nil || !one.fits(machine) {
			continue
		}
		template, err := os.Stat(one.Mapping.Template.Name)
		if err != nil {
			continue
		}
		if _, err := os.Stat(one.Mapping.Code.Name); err == nil {
			list = append(list, firmware{one.Mapping.Code.Name, one.Mapping.Template.Name, template.Size(),
				slices.Contains(one.Features, "secure-boot")})
		}
	}
	return list
}

// fits reports whether the driver can use firmware for a machine type: UEFI with the NVRAM in a file of its own, and
// without secure boot, or with secure boot that a guest cannot switch off.
func (f description) fits(machine string) bool {
	switch {
	case !slices.Contains(f.Interfaces, "uefi") || f.Mapping.Device != "flash":
		return false
	case f.Mapping.Mode != "" && f.Mapping.Mode != "split":
		return false
	case f.Mapping.Code.Format != "raw" || f.Mapping.Template.Format != "raw":
		return false
	case slices.Contains(f.Features, "secure-boot") &&
		!(slices.Contains(f.Features, "enrolled-keys") && slices.Contains(f.Features, "requires-smm")):
		return false
	}
	if machine == "" || machine == "q35" {
		machine = "pc-q35-" // of any version
	}
	for _, target := range f.Targets {
		if target.Architecture == "x86_64" && slices.ContainsFunc(target.Machines, func(pattern string) bool {
			matches, err := path.Match(pattern, machine)
			return err == nil && matches
		}) {
			return true
		}
	}
	return false
}

// filesWithFirmware is filesOf with the firmware of the guest.
func (d directory) filesWithFirmware(domain uuid.UUID, g hypervisor.Guest) (domainxml.Files, error) {
	files := d.filesOf(domain, g)
	if g.Hardware.Firmware == "" {
		return files, nil
	}
	found, nvram, err := d.firmwareOf(domain, g, 0)
	files.Firmware = domainxml.Firmware{Loader: found.loader, NVRAM: nvram, Secure: found.secure}
	return files, err
}

// makeNVRAM makes the NVRAM of a guest with UEFI, unless it exists. kept: the guest has had it; the fault is Conflict
// if it is missing.
func (d directory) makeNVRAM(domain uuid.UUID, g hypervisor.Guest, kept bool) error {
	if g.Hardware.Firmware == "" {
		return nil
	}
	found, nvram, err := d.firmwareOf(domain, g, 0)
	if err != nil {
		return err
	}
	_, missing := os.Stat(nvram)
	switch {
	case missing == nil:
		return nil
	case !errors.Is(missing, fs.ErrNotExist):
		return fault.Wrap(fault.Unavailable, missing)
	case kept:
		return fault.New(fault.Conflict, "the NVRAM %s of the guest %s, with its boot entries and keys, is "+
			"missing, and the guest gets no new one; restore the file, copy %s to it, or rebuild the server", nvram, g.ID,
			found.template)
	}
	content, err := os.ReadFile(found.template)
	if err == nil {
		err = datafile.Replace(nvram, content)
	}
	if err != nil {
		return fault.New(fault.Unavailable, "the NVRAM of the guest %s cannot be made: %w", g.ID, err)
	}
	return nil
}

// keepFirmware lets a guest keep the firmware with which it was installed: its disk boots with no other. have is the
// guest that has the disk.
func (b *builder) keepFirmware(have hypervisor.Guest) {
	if have.Hardware.Firmware != b.guest.Hardware.Firmware {
		b.d.o.Log.Warn("guest keeps the firmware of its disk", "guest", b.guest.ID, "firmware", have.Hardware.Firmware)
		b.guest.Hardware.Firmware, b.guest.Hardware.SecureBoot = have.Hardware.Firmware, have.Hardware.SecureBoot
	}
}

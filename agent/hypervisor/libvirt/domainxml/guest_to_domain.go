package domainxml

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// Host is what the driver knows about the host and its configuration.
type Host struct {
	KVM      bool   // the host can accelerate guests
	Arch     string // such as x86_64
	Machine  string // machine type, such as q35
	CPUModel string // [libvirt] cpu_models; empty: that of the host with KVM, otherwise the best that QEMU emulates

	// Names are the host's names of the devices of ports that guests do not get as PCI devices: the network interface of
	// a VF for macvtap, such as ens1f0v1, and the path of its character device for vdpa, such as /dev/vhost-vdpa-0.
	Names map[device.ID]string
}

// Files are the files of a guest on the host.
type Files struct {
	Disk        string // qcow2; empty: none
	ConfigDrive string // ISO 9660; empty: none
	ConsoleLog  string
	Kernel      string // boots this instead of the disk; empty: the disk
	Initrd      string
	Cmdline     string
	Firmware    Firmware
}

// Firmware is the UEFI firmware of a guest. The zero value is BIOS.
type Firmware struct {
	Loader string // path of its code on the host
	NVRAM  string // path of the guest's file with its variables
	Secure bool   // secure boot
}

// Make returns the domain of a guest, with a UUID that no other domain has: that of the guest is another domain's after
// a rename. It returns fault.Invalid for a device that is not a PCI device, for an interface of a kind that is not
// supported, and for a text that XML cannot represent; fault.Unavailable if the host has no name for a port's device.
func Make(host Host, id string, g hypervisor.Guest, files Files) (Domain, error) {
	if err := checkTexts(append(texts(g), id, host.CPUModel, files.Disk, files.ConfigDrive, files.ConsoleLog,
		files.Kernel, files.Initrd, files.Cmdline, files.Firmware.Loader, files.Firmware.NVRAM)); err != nil {
		return Domain{}, err
	}
	d := Domain{
		Type: virtType(host), Name: DomainName(id), UUID: id, Metadata: Metadata{Write(g)},
		Memory: Memory{Unit: "MiB", Value: g.MemoryMB}, VCPU: VCPU{Placement: "static", Count: g.VCPUs},
		OS: OS{Type: OSType{Arch: host.Arch, Machine: cmp.Or(g.Hardware.Machine, host.Machine), Value: "hvm"},
			Kernel: files.Kernel, Initrd: files.Initrd, Cmdline: files.Cmdline, BIOS: &BIOS{UseSerial: "yes"}},
		CPU: CPU{Mode: "maximum"}, Clock: Clock{Offset: "utc"},
		OnPowerOff: "destroy", OnReboot: "restart", OnCrash: "destroy",
	}
	switch {
	case host.CPUModel != "":
		d.CPU.Mode, d.CPU.Model = "custom", &Model{Fallback: "forbid", Name: host.CPUModel}
	case host.KVM:
		d.CPU.Mode = "host-model"
	}
	d.Metadata.Guest.Domain = id
	addCells(&d, g.Cells)
	d.Devices = devices(files)
	addFirmware(&d, files.Firmware)
	addHardware(&d.Devices, g.Hardware)
	if err := addDevices(&d, host, g); err != nil {
		return Domain{}, err
	}
	addPorts(&d.Devices)
	return d, nil
}

// sparePorts is the number of devices that can be attached while the guest runs.
const sparePorts = 4

// addPorts adds a PCIe port for each device and the spare ones; libvirt adds only those that the guest needs when it
// starts.
func addPorts(d *Devices) {
	const randomNumbers = 1
	d.Controllers = append(d.Controllers, Controller{Type: "pci", Model: "pcie-root"})
	for range len(d.Disks) + len(d.Interfaces) + len(d.HostDevs) + len(d.Channels) + len(d.Videos) + randomNumbers +
		sparePorts {
		d.Controllers = append(d.Controllers, Controller{Type: "pci", Model: "pcie-root-port"})
	}
}

// addDevices adds the network interfaces of a guest, and those of its devices that are not interfaces.
func addDevices(d *Domain, host Host, g hypervisor.Guest) error {
	ports := map[device.ID]bool{}
	for _, one := range g.Interfaces {
		if one.VIF == hostDevPhysical || one.Port == "" && one.Device != (device.ID{}) {
			continue // the guest has the whole device, and sets the MAC address itself; or the port is being changed
		}
		element, err := InterfaceOf(host, one, g)
		if err != nil {
			return err
		}
		d.Devices.Interfaces = append(d.Devices.Interfaces, element)
		ports[one.Device] = true
	}
	for _, one := range g.Devices {
		if ports[one.ID] {
			continue
		}
		element, err := hostDev(one)
		if err != nil {
			return err
		}
		d.Devices.HostDevs = append(d.Devices.HostDevs, element)
	}
	return nil
}

// texts returns the texts of a guest that become part of the domain.
func texts(g hypervisor.Guest) []string {
	out := []string{g.ID, g.Server, g.Name, g.Image}
	for _, d := range g.Devices {
		out = append(out, d.Request, string(d.Provider))
	}
	for _, i := range g.Interfaces {
		out = append(out, i.Port, i.MAC, i.VIF, i.VNIC, i.Bridge)
	}
	return out
}

func checkTexts(texts []string) error {
	for _, text := range texts {
		if !isXML(text) {
			return fault.New(fault.Invalid, "%q contains a character that XML does not allow; remove it",
				text)
		}
	}
	return nil
}

// isXML reports whether XML can represent a text unchanged.
func isXML(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool {
		return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xfffe || r == 0xffff || r == utf8.RuneError
	})
}

func virtType(host Host) string {
	if host.KVM {
		return "kvm"
	}
	return "qemu"
}

// namePrefix begins the names of the guests' domains.
const namePrefix = "berth-"

// DomainName returns the name of a guest's domain with a UUID. It contains only the UUID: a name that users choose may
// be taken, and may contain what libvirt refuses.
func DomainName(id string) string { return namePrefix + id }

// GuestOf returns the guest of a domain by its name. own is false for a domain of another program.
func GuestOf(name string) (id string, own bool) { return strings.CutPrefix(name, namePrefix) }

// devices returns the devices that every guest has.
func devices(files Files) Devices {
	console := Character{Type: "pty", Target: CharacterTarget{Type: "serial"}}
	serial := Character{Type: "pty"}
	if files.ConsoleLog != "" {
		serial.Log = &Log{File: files.ConsoleLog, Append: "on"}
	}
	d := Devices{Serials: []Character{serial}, Consoles: []Character{console},
		RNG:     &RNG{Model: "virtio", Backend: Backend{Model: "random", Path: "/dev/urandom"}},
		Balloon: &Balloon{Model: "none"}}
	if files.Disk != "" {
		d.Disks = append(d.Disks, Disk{Type: "file", Device: "disk",
			Driver: Driver{Name: "qemu", Type: "qcow2", Cache: "none"}, Source: File{files.Disk},
			Target: Target{Dev: "vda", Bus: "virtio"}, Boot: &Boot{Order: 1}})
	}
	if files.ConfigDrive != "" { // not a CD: the kernels of cloud images have no driver for SATA
		d.Disks = append(d.Disks, Disk{Type: "file", Device: "disk", Driver: Driver{Name: "qemu", Type: "raw"},
			Source: File{files.ConfigDrive}, Target: Target{Dev: "vdb", Bus: "virtio"}, ReadOnly: &Empty{}})
	}
	return d
}

// hostDev returns the element of a PCI device.
func hostDev(d hypervisor.Device) (HostDev, error) {
	at, err := pci.ParseAddress(d.ID.String())
	if err != nil {
		return HostDev{}, fault.New(fault.Invalid, "device %s is not a PCI device: %w", d.ID, err)
	}
	return HostDev{Mode: "subsystem", Type: "pci", Managed: yesNo(!d.Unmanaged),
		Source: HostDevSource{address(at)}}, nil
}

func address(at pci.Address) PCIAddress {
	return PCIAddress{Domain: fmt.Sprintf("0x%04x", at.Domain), Bus: fmt.Sprintf("0x%02x", at.Bus),
		Slot: fmt.Sprintf("0x%02x", at.Slot), Function: fmt.Sprintf("0x%x", at.Func)}
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// addCells adds the NUMA cells of a guest, the memory and huge pages of each on its node of the host, and the pinned
// CPUs.
func addCells(d *Domain, cells []hypervisor.GuestCell) {
	if len(cells) == 0 {
		return
	}
	var tune CPUTune
	nodes := map[int]bool{}
	numa := &NUMATune{}
	d.CPU.NUMA = &NUMA{}
	var pages []Page
	var emulator []int
	for i, c := range cells {
		d.CPU.NUMA.Cells = append(d.CPU.NUMA.Cells, Cell{ID: i, CPUs: numbers(c.VCPUs), Memory: c.MemoryMB, Unit: "MiB"})
		numa.Cells = append(numa.Cells, MemoryNode{Cell: i, Mode: "strict", NodeSet: strconv.Itoa(c.Node)})
		nodes[c.Node] = true
		if c.PageKB > 0 {
			pages = append(pages, Page{Size: c.PageKB, Unit: "KiB", NodeSet: strconv.Itoa(i)})
		}
		for vcpu, thread := range c.CPUs {
			tune.Pins = append(tune.Pins, VCPUPin{VCPU: vcpu, CPUSet: strconv.Itoa(thread)})
		}
		emulator = append(emulator, c.Emulator...)
	}
	numa.Memory = MemoryNodes{Mode: "strict", NodeSet: numbers(slices.Collect(maps.Keys(nodes)))}
	d.NUMATune = numa
	if len(pages) > 0 {
		d.MemoryBacking = &MemoryBacking{HugePages: &HugePages{Pages: pages}}
	}
	slices.SortFunc(tune.Pins, func(a, b VCPUPin) int { return cmp.Compare(a.VCPU, b.VCPU) })
	if len(emulator) > 0 {
		tune.Emulator = &EmulatorPin{CPUSet: numbers(emulator)}
	}
	if len(tune.Pins) > 0 || tune.Emulator != nil {
		d.CPUTune = &tune
	}
}

// numbers writes numbers as libvirt does: sorted, with ranges, such as 0-2,5.
func numbers(list []int) string {
	sorted := slices.Clone(list)
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	var texts []string
	for i := 0; i < len(sorted); {
		end := i
		for end+1 < len(sorted) && sorted[end+1] == sorted[end]+1 {
			end++
		}
		text := strconv.Itoa(sorted[i])
		if end > i {
			text += "-" + strconv.Itoa(sorted[end])
		}
		texts, i = append(texts, text), end+1
	}
	return strings.Join(texts, ",")
}

package domainxml

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"libvirt.org/go/libvirtxml"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
)

// Files are the files of a guest on the host.
type Files struct {
	Disk        string // qcow2; empty: none
	Rescue      string // qcow2; boots instead of Disk; empty: none
	ConfigDrive string // ISO 9660; empty: none
	ConsoleLog  string
	Kernel      string // boots this instead of the disk; empty: the disk
	Initrd      string
	Cmdline     string
	Firmware    Firmware
}

// Make returns the domain of a guest, with a UUID that no other domain has: that of the guest is another domain's after
// a rename. It returns fault.Invalid for a device that is not a PCI device, for an interface of a kind that is not
// supported, and for a text that XML cannot represent; fault.Unavailable if the host has no name for a port's device.
func Make(host Host, id string, g hypervisor.Guest, files Files) (Domain, error) {
	if err := checkTexts(append(texts(g), id, host.CPUModel, files.Disk, files.Rescue, files.ConfigDrive, files.ConsoleLog,
		files.Kernel, files.Initrd, files.Cmdline, files.Firmware.Loader, files.Firmware.NVRAM)); err != nil {
		return Domain{}, err
	}
	d := Domain{Guest: Write(g), Domain: libvirtxml.Domain{
		Type: virtType(host), Name: DomainName(id), UUID: id,
		Memory: &libvirtxml.DomainMemory{Unit: "MiB", Value: uint(g.MemoryMB)},
		VCPU:   &libvirtxml.DomainVCPU{Placement: "static", Value: uint(g.VCPUs)},
		OS: &libvirtxml.DomainOS{Kernel: files.Kernel, Initrd: files.Initrd, Cmdline: files.Cmdline,
			Type: &libvirtxml.DomainOSType{Arch: host.Arch, Machine: cmp.Or(g.Hardware.Machine, host.Machine), Type: "hvm"},
			BIOS: &libvirtxml.DomainBIOS{UseSerial: "yes"}},
		Features: &libvirtxml.DomainFeatureList{ACPI: &libvirtxml.DomainFeature{}, APIC: &libvirtxml.DomainFeatureAPIC{}},
		CPU:      &libvirtxml.DomainCPU{Mode: "maximum"}, Clock: &libvirtxml.DomainClock{Offset: "utc"},
		OnPoweroff: "destroy", OnReboot: "restart", OnCrash: "destroy",
		Devices: devices(files),
	}}
	d.Guest.Domain = id
	switch {
	case host.CPUModel != "":
		d.CPU.Mode, d.CPU.Model = "custom", &libvirtxml.DomainCPUModel{Fallback: "forbid", Value: host.CPUModel}
	case host.KVM:
		d.CPU.Mode = "host-model"
	}
	addProduct(&d, host.Arch)
	addCells(&d, g.Cells)
	addFirmware(&d, files.Firmware)
	addHardware(d.Devices, g.Hardware)
	if host.VNC {
		addDisplay(d.Devices, g.Hardware)
	}
	if err := addDevices(&d, host, g); err != nil {
		return Domain{}, err
	}
	addPorts(d.Devices)
	return d, nil
}

// addProduct names the product in the SMBIOS tables of a guest as Nova does: cloud-init and others recognize by it
// that there is OpenStack's metadata service. pSeries machines have no such tables.
func addProduct(d *Domain, arch string) {
	if arch != "x86_64" && arch != "aarch64" {
		return
	}
	d.OS.SMBios = &libvirtxml.DomainSMBios{Mode: "sysinfo"}
	system := &libvirtxml.DomainSysInfoSystem{Entry: []libvirtxml.DomainSysInfoEntry{
		{Name: "manufacturer", Value: "OpenStack Foundation"}, {Name: "product", Value: "OpenStack Nova"},
		{Name: "family", Value: "Virtual Machine"}}}
	d.SysInfo = []libvirtxml.DomainSysInfo{{SMBIOS: &libvirtxml.DomainSysInfoSMBIOS{System: system}}}
}

// sparePorts is the number of devices that can be attached while the guest runs.
const sparePorts = 4

// addPorts adds a PCIe port for each device and the spare ones; libvirt adds only those that the guest needs when it
// starts.
func addPorts(d *libvirtxml.DomainDeviceList) {
	d.Controllers = append(d.Controllers, libvirtxml.DomainController{Type: "pci", Model: "pcie-root"})
	for range len(d.Disks) + len(d.Interfaces) + len(d.Hostdevs) + len(d.Channels) + len(d.Videos) + len(d.RNGs) +
		sparePorts {
		d.Controllers = append(d.Controllers, libvirtxml.DomainController{Type: "pci", Model: "pcie-root-port"})
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
		d.Devices.Hostdevs = append(d.Devices.Hostdevs, element)
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
func devices(files Files) *libvirtxml.DomainDeviceList {
	pty := &libvirtxml.DomainChardevSource{Pty: &libvirtxml.DomainChardevSourcePty{}}
	serial := libvirtxml.DomainSerial{Source: pty, Target: &libvirtxml.DomainSerialTarget{Port: new(uint)}}
	if files.ConsoleLog != "" {
		serial.Log = &libvirtxml.DomainChardevLog{File: files.ConsoleLog, Append: "on"}
	}
	d := &libvirtxml.DomainDeviceList{
		Serials: []libvirtxml.DomainSerial{serial},
		Consoles: []libvirtxml.DomainConsole{{Source: pty,
			Target: &libvirtxml.DomainConsoleTarget{Type: "serial", Port: new(uint)}}},
		RNGs: []libvirtxml.DomainRNG{{Model: virtio, Backend: &libvirtxml.DomainRNGBackend{
			Random: &libvirtxml.DomainRNGBackendRandom{Device: "/dev/urandom"}}}},
		MemBalloon: &libvirtxml.DomainMemBalloon{Model: "none"}}
	if files.Disk != "" {
		one := disk(files.Disk, "vda", libvirtxml.DomainDiskDriver{Name: "qemu", Type: "qcow2", Cache: "none"})
		one.Boot = &libvirtxml.DomainDeviceBoot{Order: 1}
		d.Disks = append(d.Disks, one)
	}
	if files.ConfigDrive != "" {
		one := disk(files.ConfigDrive, "vdb", libvirtxml.DomainDiskDriver{Name: "qemu", Type: "raw"})
		one.ReadOnly = &libvirtxml.DomainDiskReadOnly{}
		d.Disks = append(d.Disks, one)
	}
	if files.Rescue != "" { // the other disks keep their names, as with Nova's stable rescue
		for i := range d.Disks {
			d.Disks[i].Boot = nil
		}
		one := disk(files.Rescue, "vdc", libvirtxml.DomainDiskDriver{Name: "qemu", Type: "qcow2", Cache: "none"})
		one.Boot = &libvirtxml.DomainDeviceBoot{Order: 1}
		d.Disks = append(d.Disks, one)
	}
	return d
}

// disk returns a disk of virtio. It is not a CD: the kernels of cloud images have no driver for SATA.
func disk(file, name string, driver libvirtxml.DomainDiskDriver) libvirtxml.DomainDisk {
	return libvirtxml.DomainDisk{Device: "disk", Driver: &driver,
		Source: &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{File: file}},
		Target: &libvirtxml.DomainDiskTarget{Dev: name, Bus: virtio}}
}

// addCells adds the NUMA cells of a guest, the memory and huge pages of each on its node of the host, and the pinned
// CPUs.
func addCells(d *Domain, cells []hypervisor.GuestCell) {
	if len(cells) == 0 {
		return
	}
	var tune libvirtxml.DomainCPUTune
	nodes := map[int]bool{}
	d.NUMATune, d.CPU.Numa = &libvirtxml.DomainNUMATune{}, &libvirtxml.DomainNuma{}
	var pages []libvirtxml.DomainMemoryHugepage
	var emulator []int
	for i, c := range cells {
		d.CPU.Numa.Cell = append(d.CPU.Numa.Cell, libvirtxml.DomainCell{ID: new(uint(i)), CPUs: numbers(c.VCPUs),
			Memory: uint(c.MemoryMB), Unit: "MiB"})
		d.NUMATune.MemNodes = append(d.NUMATune.MemNodes, libvirtxml.DomainNUMATuneMemNode{CellID: uint(i), Mode: "strict",
			Nodeset: strconv.Itoa(c.Node)})
		nodes[c.Node] = true
		if c.PageKB > 0 {
			pages = append(pages, libvirtxml.DomainMemoryHugepage{Size: uint(c.PageKB), Unit: "KiB", Nodeset: strconv.Itoa(i)})
		}
		for vcpu, thread := range c.CPUs {
			tune.VCPUPin = append(tune.VCPUPin, libvirtxml.DomainCPUTuneVCPUPin{VCPU: uint(vcpu), CPUSet: strconv.Itoa(thread)})
		}
		emulator = append(emulator, c.Emulator...)
	}
	d.NUMATune.Memory = &libvirtxml.DomainNUMATuneMemory{Mode: "strict",
		Nodeset: numbers(slices.Collect(maps.Keys(nodes)))}
	if len(pages) > 0 {
		d.MemoryBacking = &libvirtxml.DomainMemoryBacking{
			MemoryHugePages: &libvirtxml.DomainMemoryHugepages{Hugepages: pages}}
	}
	slices.SortFunc(tune.VCPUPin, func(a, b libvirtxml.DomainCPUTuneVCPUPin) int { return cmp.Compare(a.VCPU, b.VCPU) })
	if len(emulator) > 0 {
		tune.EmulatorPin = &libvirtxml.DomainCPUTuneEmulatorPin{CPUSet: numbers(emulator)}
	}
	if len(tune.VCPUPin) > 0 || tune.EmulatorPin != nil {
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

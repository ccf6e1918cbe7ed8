// Package domainxml describes the domains that the libvirt driver defines: what a guest has, as values, and their XML.
//
// elements.go has the elements of libvirt's domain format that the driver uses; guest_to_domain.go makes a domain from
// a guest. The package is pure. encoding/xml escapes all texts, so that no name of a user can add an element.
package domainxml

import "encoding/xml"

// Domain is the element domain.
type Domain struct {
	XMLName  xml.Name `xml:"domain"`
	Type     string   `xml:"type,attr"` // kvm or qemu
	Name     string   `xml:"name"`
	UUID     string   `xml:"uuid"`
	Metadata Metadata `xml:"metadata"`
	Memory   Memory   `xml:"memory"`

	MemoryBacking *MemoryBacking `xml:"memoryBacking"`
	VCPU          VCPU           `xml:"vcpu"`
	CPUTune       *CPUTune       `xml:"cputune"`
	NUMATune      *NUMATune      `xml:"numatune"`
	OS            OS             `xml:"os"`
	Features      Features       `xml:"features"`
	CPU           CPU            `xml:"cpu"`
	Clock         Clock          `xml:"clock"`
	OnPowerOff    string         `xml:"on_poweroff"`
	OnReboot      string         `xml:"on_reboot"`
	OnCrash       string         `xml:"on_crash"`
	Devices       Devices        `xml:"devices"`
}

// Memory is an amount of memory.
type Memory struct {
	Unit  string `xml:"unit,attr"`
	Value int    `xml:",chardata"`
}

// MemoryBacking is the kind of pages.
type MemoryBacking struct {
	HugePages *HugePages `xml:"hugepages"`
}

// HugePages are the huge pages of NUMA cells.
type HugePages struct {
	Pages []Page `xml:"page"`
}

// Page is the size of the pages of some cells.
type Page struct {
	Size    int    `xml:"size,attr"`
	Unit    string `xml:"unit,attr"`
	NodeSet string `xml:"nodeset,attr"`
}

// VCPU is the number of virtual CPUs.
type VCPU struct {
	Placement string `xml:"placement,attr"`
	Count     int    `xml:",chardata"`
}

// CPUTune pins virtual CPUs and the emulator to host threads.
type CPUTune struct {
	Pins     []VCPUPin    `xml:"vcpupin"`
	Emulator *EmulatorPin `xml:"emulatorpin"`
}

// VCPUPin pins a virtual CPU.
type VCPUPin struct {
	VCPU   int    `xml:"vcpu,attr"`
	CPUSet string `xml:"cpuset,attr"`
}

// EmulatorPin pins the emulator's threads.
type EmulatorPin struct {
	CPUSet string `xml:"cpuset,attr"`
}

// NUMATune binds the memory of cells to nodes of the host.
type NUMATune struct {
	Memory MemoryNodes  `xml:"memory"`
	Cells  []MemoryNode `xml:"memnode"`
}

// MemoryNodes are the nodes of all cells.
type MemoryNodes struct {
	Mode    string `xml:"mode,attr"`
	NodeSet string `xml:"nodeset,attr"`
}

// MemoryNode is the node of one cell.
type MemoryNode struct {
	Cell    int    `xml:"cellid,attr"`
	Mode    string `xml:"mode,attr"`
	NodeSet string `xml:"nodeset,attr"`
}

// OS is the machine type and how it boots.
type OS struct {
	Type    OSType `xml:"type"`
	Kernel  string `xml:"kernel,omitempty"`
	Initrd  string `xml:"initrd,omitempty"`
	Cmdline string `xml:"cmdline,omitempty"`
	BIOS    *BIOS  `xml:"bios"`

	Loader *Loader `xml:"loader"`          // of UEFI
	NVRAM  string  `xml:"nvram,omitempty"` // path of the file with its variables
}

// Loader is the code of UEFI firmware.
type Loader struct {
	ReadOnly string `xml:"readonly,attr"`
	Secure   string `xml:"secure,attr,omitempty"` // yes: only the firmware can change its variables
	Type     string `xml:"type,attr"`
	Path     string `xml:",chardata"`
}

// OSType is the machine type.
type OSType struct {
	Arch    string `xml:"arch,attr"`
	Machine string `xml:"machine,attr"`
	Value   string `xml:",chardata"`
}

// BIOS configures the firmware.
type BIOS struct {
	UseSerial string `xml:"useserial,attr"`
}

// Features are features of the machine.
type Features struct {
	ACPI Empty `xml:"acpi"`
	APIC Empty `xml:"apic"`
	SMM  *SMM  `xml:"smm"`
}

// SMM is the system management mode, which secure boot needs.
type SMM struct {
	State string `xml:"state,attr"`
}

// Empty is an element without content.
type Empty struct{}

// CPU is the CPU model and the NUMA cells.
type CPU struct {
	Mode  string `xml:"mode,attr"`
	Model *Model `xml:"model"`
	NUMA  *NUMA  `xml:"numa"`
}

// NUMA is the NUMA topology of the guest.
type NUMA struct {
	Cells []Cell `xml:"cell"`
}

// Model is a named CPU model.
type Model struct {
	Fallback string `xml:"fallback,attr"`
	Name     string `xml:",chardata"`
}

// Cell is a NUMA cell of the guest.
type Cell struct {
	ID     int    `xml:"id,attr"`
	CPUs   string `xml:"cpus,attr"`
	Memory int    `xml:"memory,attr"`
	Unit   string `xml:"unit,attr"`
}

// Clock is the guest's clock.
type Clock struct {
	Offset string `xml:"offset,attr"`
}

// Devices are the devices of a domain.
type Devices struct {
	Emulator    string       `xml:"emulator,omitempty"`
	Controllers []Controller `xml:"controller"`
	Disks       []Disk       `xml:"disk"`
	Interfaces  []Interface  `xml:"interface"`
	HostDevs    []HostDev    `xml:"hostdev"`
	Serials     []Character  `xml:"serial"`
	Consoles    []Character  `xml:"console"`
	Channels    []Channel    `xml:"channel"`
	Videos      []Video      `xml:"video"`
	RNG         *RNG         `xml:"rng"`
	Balloon     *Balloon     `xml:"memballoon"`
}

// Controller is a controller of a bus, such as a PCIe port.
type Controller struct {
	Type  string `xml:"type,attr"`
	Model string `xml:"model,attr"`
}

// Disk is a disk or a config drive.
type Disk struct {
	Type     string `xml:"type,attr"`
	Device   string `xml:"device,attr"`
	Driver   Driver `xml:"driver"`
	Source   File   `xml:"source"`
	Target   Target `xml:"target"`
	ReadOnly *Empty `xml:"readonly"`
	Boot     *Boot  `xml:"boot"`
}

// Driver is the format of a disk.
type Driver struct {
	Name  string `xml:"name,attr"`
	Type  string `xml:"type,attr"`
	Cache string `xml:"cache,attr,omitempty"`
}

// File is the file of a disk.
type File struct {
	File string `xml:"file,attr"`
}

// Target is the guest's name of a device.
type Target struct {
	Dev string `xml:"dev,attr"`
	Bus string `xml:"bus,attr,omitempty"`
}

// Boot is the position in the boot order.
type Boot struct {
	Order int `xml:"order,attr"`
}

// Interface is a network interface.
type Interface struct {
	Type    string           `xml:"type,attr"` // hostdev, bridge, direct or vdpa
	Managed string           `xml:"managed,attr,omitempty"`
	MAC     MAC              `xml:"mac"`
	Source  *InterfaceSource `xml:"source"`
	VLAN    *VLAN            `xml:"vlan"`
	Virtual *VirtualPort     `xml:"virtualport"`
	Target  *Target          `xml:"target"`
	Model   *InterfaceModel  `xml:"model"`
	MTU     *MTU             `xml:"mtu"`
	Address *PCIAddress      `xml:"address"` // in the guest; libvirt chooses it
}

// MTU is the size of the largest packet, in bytes.
type MTU struct {
	Size int `xml:"size,attr"`
}

// MAC is a MAC address.
type MAC struct {
	Address string `xml:"address,attr"`
}

// InterfaceSource is the device or bridge of an interface.
type InterfaceSource struct {
	Bridge  string      `xml:"bridge,attr,omitempty"`
	Dev     string      `xml:"dev,attr,omitempty"`
	Mode    string      `xml:"mode,attr,omitempty"`
	Address *PCIAddress `xml:"address"`
}

// VLAN is the VLAN of an SR-IOV function, or of a port of Open vSwitch.
type VLAN struct {
	Tags []Tag `xml:"tag"`
}

// Tag is a VLAN ID.
type Tag struct {
	ID int `xml:"id,attr"`
}

// VirtualPort is a port of Open vSwitch.
type VirtualPort struct {
	Type       string     `xml:"type,attr"`
	Parameters Parameters `xml:"parameters"`
}

// Parameters identify a port of Open vSwitch.
type Parameters struct {
	InterfaceID string `xml:"interfaceid,attr"`
}

// InterfaceModel is the emulated hardware.
type InterfaceModel struct {
	Type string `xml:"type,attr"`
}

// HostDev is a PCI device of the host.
type HostDev struct {
	Mode    string        `xml:"mode,attr"`
	Type    string        `xml:"type,attr"`
	Managed string        `xml:"managed,attr"`
	Source  HostDevSource `xml:"source"`
	Address *PCIAddress   `xml:"address"` // in the guest; libvirt chooses it
}

// HostDevSource is the place of a PCI device.
type HostDevSource struct {
	Address PCIAddress `xml:"address"`
}

// PCIAddress is a PCI address, each part as 0x and hexadecimal digits.
type PCIAddress struct {
	Type     string `xml:"type,attr,omitempty"`
	Domain   string `xml:"domain,attr"`
	Bus      string `xml:"bus,attr"`
	Slot     string `xml:"slot,attr"`
	Function string `xml:"function,attr"`
}

// Character is a serial port or console.
type Character struct {
	Type   string          `xml:"type,attr"`
	Log    *Log            `xml:"log"`
	Target CharacterTarget `xml:"target"`
}

// Log is the file that keeps the output of a serial port.
type Log struct {
	File   string `xml:"file,attr"`
	Append string `xml:"append,attr"`
}

// CharacterTarget is the port in the guest.
type CharacterTarget struct {
	Type string `xml:"type,attr,omitempty"`
	Port int    `xml:"port,attr"`
}

// Channel is a channel between the guest and the host.
type Channel struct {
	Type   string        `xml:"type,attr"`
	Target ChannelTarget `xml:"target"`
}

// ChannelTarget is the name of a channel in the guest.
type ChannelTarget struct {
	Type string `xml:"type,attr"`
	Name string `xml:"name,attr"`
}

// Video is a video device.
type Video struct {
	Model VideoModel `xml:"model"`
}

// VideoModel is the model of a video device.
type VideoModel struct {
	Type string `xml:"type,attr"`
}

// RNG is a source of random numbers.
type RNG struct {
	Model   string  `xml:"model,attr"`
	Backend Backend `xml:"backend"`
}

// Backend is the host's source of random numbers.
type Backend struct {
	Model string `xml:"model,attr"`
	Path  string `xml:",chardata"`
}

// Balloon is the memory balloon.
type Balloon struct {
	Model string `xml:"model,attr"`
}

// Encode returns the XML of a domain.
func Encode(d Domain) (string, error) {
	text, err := xml.MarshalIndent(d, "", "  ")
	return string(text), err
}

// Decode parses the XML of a domain. Elements that the driver does not use are ignored.
func Decode(text string) (d Domain, err error) {
	err = xml.Unmarshal([]byte(text), &d)
	return d, err
}

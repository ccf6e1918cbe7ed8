package domainxml

import (
	"encoding/xml"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

// Namespace is that of Berth's metadata. A domain without it is not Berth's.
const Namespace = "https://github.com/openberth/berth/libvirt/1"

// Guest is a guest in the metadata, and in the record of the guest beside its files: what the driver must find again
// after a restart of the agent, because the rest of the definition may be changed by an administrator.
type Guest struct {
	ID     string `xml:"id,attr"`
	Domain string `xml:"domain,attr"` // UUID of the guest's domain; a copy of the domain has another
	Held
	Server   string `xml:"server,attr,omitempty"` // empty: ID
	Name     string `xml:"name,attr"`
	Build    int    `xml:"build,attr"`
	Departed bool   `xml:"departed,attr,omitempty"`
	Stopped  bool   `xml:"stopped,attr,omitempty"` // it must not run, or has not been started yet
	// A live migration to this host began, and its end is not recorded
	MigratesTo string `xml:"migrates-to,attr,omitempty"`
	// Prepared for a live migration to this host, and not arrived
	Incoming   bool           `xml:"incoming,attr,omitempty"`
	Address    string         `xml:"address,attr,omitempty"` // with Incoming: of this host for memory and disks
	Base       string         `xml:"base,attr,omitempty"`    // with Incoming: SHA-512 sum of the image here
	VCPUs      int            `xml:"vcpus,attr"`
	MemoryMB   int            `xml:"memory,attr"`
	DiskGB     int            `xml:"disk,attr"`
	Image      string         `xml:"image,attr,omitempty"`
	Hardware   *MetaHardware  `xml:"https://github.com/openberth/berth/libvirt/1 hardware"` // nil: the zero value
	Devices    []Device       `xml:"https://github.com/openberth/berth/libvirt/1 device"`
	Interfaces []MetaPort     `xml:"https://github.com/openberth/berth/libvirt/1 port"`
	Cells      []MetadataCell `xml:"https://github.com/openberth/berth/libvirt/1 cell"`
}

// MetaHardware is what the image of the guest chooses of its machine.
type MetaHardware struct {
	Machine    string `xml:"machine,attr,omitempty"`
	DiskBus    string `xml:"disk-bus,attr,omitempty"`
	NICModel   string `xml:"vif-model,attr,omitempty"`
	Video      string `xml:"video-model,attr,omitempty"`
	GuestAgent bool   `xml:"guest-agent,attr,omitempty"`
	Firmware   string `xml:"firmware,attr,omitempty"`
	SecureBoot string `xml:"secure-boot,attr,omitempty"`
}

// Held is what the driver knows of the disk and the files of a guest, and that it is paused.
type Held struct {
	Paused   bool   `xml:"paused,attr,omitempty"`   // its CPUs must not run
	Made     bool   `xml:"made,attr,omitempty"`     // the disk of this Build was complete; it is never made again
	Rescue   string `xml:"rescue,attr,omitempty"`   // image that it boots instead of its disk
	Removing bool   `xml:"removing,attr,omitempty"` // in the record only: the guest is destroyed
	Host     string `xml:"host,attr,omitempty"`     // in the record only: of the guest
}

// Device is a device of the guest, with what the agent needs to restore its claim.
type Device struct {
	ID        string `xml:"id,attr"`
	Request   string `xml:"request,attr"`
	Provider  string `xml:"provider,attr,omitempty"`
	Unmanaged bool   `xml:"unmanaged,attr,omitempty"`
}

// MetaPort is a network interface of the guest.
type MetaPort struct {
	ID     string `xml:"id,attr"`
	MAC    string `xml:"mac,attr"`
	VIF    string `xml:"vif,attr"`
	VNIC   string `xml:"vnic,attr"`
	Bridge string `xml:"bridge,attr,omitempty"`
	VLAN   int    `xml:"vlan,attr,omitempty"`
	MTU    int    `xml:"mtu,attr,omitempty"`
	Device string `xml:"device,attr,omitempty"`
}

// MetadataCell is a NUMA cell of the guest. Lists of numbers have commas; CPUs are pairs such as 0:4.
type MetadataCell struct {
	VCPUs    string `xml:"vcpus,attr"`
	MemoryMB int    `xml:"memory,attr"`
	PageKB   int    `xml:"page,attr,omitempty"`
	Node     int    `xml:"node,attr"`
	CPUs     string `xml:"cpus,attr,omitempty"`
	Emulator string `xml:"emulator,attr,omitempty"`
}

// Write returns the metadata of a guest. Whether the guest runs is not part of them, but whether it must.
func Write(g hypervisor.Guest) Guest {
	out := Guest{ID: g.ID, Server: g.Server, Name: g.Name, Build: g.Build, Departed: g.Departed, Stopped: g.Stopped,
		VCPUs: g.VCPUs, MemoryMB: g.MemoryMB, DiskGB: g.DiskGB, Image: g.Image}
	out.Paused, out.Rescue = g.Paused, g.Rescue
	if g.Hardware != (hypervisor.Hardware{}) {
		hardware := MetaHardware(g.Hardware)
		out.Hardware = &hardware
	}
	for _, d := range g.Devices {
		out.Devices = append(out.Devices, Device{ID: d.ID.String(), Request: d.Request, Provider: string(d.Provider),
			Unmanaged: d.Unmanaged})
	}
	for _, i := range g.Interfaces {
		one := MetaPort{ID: i.Port, MAC: i.MAC, VIF: i.VIF, VNIC: i.VNIC, Bridge: i.Bridge, VLAN: i.VLAN, MTU: i.MTU}
		if i.Device != (device.ID{}) {
			one.Device = i.Device.String()
		}
		out.Interfaces = append(out.Interfaces, one)
	}
	for _, c := range g.Cells {
		var pairs []string
		for _, vcpu := range slices.Sorted(maps.Keys(c.CPUs)) {
			pairs = append(pairs, fmt.Sprintf("%d:%d", vcpu, c.CPUs[vcpu]))
		}
		out.Cells = append(out.Cells, MetadataCell{VCPUs: list(c.VCPUs), MemoryMB: c.MemoryMB, PageKB: c.PageKB,
			Node: c.Node, CPUs: strings.Join(pairs, ","), Emulator: list(c.Emulator)})
	}
	return out
}

// Read returns the guest. The fault is Internal for metadata that Write has not made.
func (g Guest) Read() (hypervisor.Guest, error) {
	out := hypervisor.Guest{ID: g.ID, Server: g.Server, Name: g.Name, Build: g.Build, Departed: g.Departed,
		Stopped: g.Stopped, VCPUs: g.VCPUs, MemoryMB: g.MemoryMB, DiskGB: g.DiskGB, Image: g.Image}
	out.Paused, out.Rescue = g.Paused, g.Rescue
	if g.Hardware != nil {
		out.Hardware = hypervisor.Hardware(*g.Hardware)
	}
	var r reader
	for _, d := range g.Devices {
		out.Devices = append(out.Devices, hypervisor.Device{ID: r.device(d.ID), Request: d.Request,
			Provider: provider.ID(d.Provider), Unmanaged: d.Unmanaged})
	}
	for _, p := range g.Interfaces {
		i := hypervisor.Interface{Port: p.ID, MAC: p.MAC, VIF: p.VIF, VNIC: p.VNIC, Bridge: p.Bridge, VLAN: p.VLAN,
			MTU: p.MTU}
		if p.Device != "" {
			i.Device = r.device(p.Device)
		}
		out.Interfaces = append(out.Interfaces, i)
	}
	for _, c := range g.Cells {
		out.Cells = append(out.Cells, hypervisor.GuestCell{VCPUs: r.numbers(c.VCPUs), MemoryMB: c.MemoryMB,
			PageKB: c.PageKB, Node: c.Node, CPUs: r.pairs(c.CPUs), Emulator: r.numbers(c.Emulator)})
	}
	if r.err != nil {
		return out, fault.New(fault.Internal, "the metadata of the guest %s cannot be read: %w", g.ID, r.err)
	}
	return out, nil
}

// reader parses the texts of metadata and keeps the first error.
type reader struct{ err error }

func (r *reader) device(text string) device.ID {
	id, err := device.ParseID(text)
	r.fail(err)
	return id
}

func (r *reader) number(text string) int {
	n, err := strconv.Atoi(text)
	r.fail(err)
	return n
}

func (r *reader) numbers(text string) (out []int) {
	if text == "" {
		return nil
	}
	for _, one := range strings.Split(text, ",") {
		out = append(out, r.number(one))
	}
	return out
}

func (r *reader) pairs(text string) map[int]int {
	if text == "" {
		return nil
	}
	out := map[int]int{}
	for _, pair := range strings.Split(text, ",") {
		vcpu, thread, _ := strings.Cut(pair, ":")
		out[r.number(vcpu)] = r.number(thread)
	}
	return out
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// list writes numbers in their order.
func list(numbers []int) string {
	var texts []string
	for _, n := range numbers {
		texts = append(texts, strconv.Itoa(n))
	}
	return strings.Join(texts, ",")
}

// EncodeGuest returns the XML element of a guest's metadata. It returns fault.Invalid for a text that XML cannot
// represent.
func EncodeGuest(g Guest) (string, error) {
	all := []string{g.ID, g.Domain, g.Server, g.Name, g.Image, g.MigratesTo, g.Address, g.Host}
	for _, d := range g.Devices {
		all = append(all, d.Request, d.Provider)
	}
	for _, i := range g.Interfaces {
		all = append(all, i.ID, i.MAC, i.VIF, i.VNIC, i.Bridge)
	}
	if err := checkTexts(all); err != nil {
		return "", err
	}
	var text strings.Builder
	err := xml.NewEncoder(&text).EncodeElement(g, xml.StartElement{Name: xml.Name{Space: Namespace, Local: "guest"}})
	return text.String(), fault.Wrap(fault.Internal, err)
}

// DecodeGuest returns the metadata of a guest from the XML of EncodeGuest.
func DecodeGuest(text []byte) (g Guest, err error) {
	if err = xml.Unmarshal(text, &g); err == nil && g.ID == "" {
		err = errors.New("it has no guest")
	}
	return g, err
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

package domainxml

import (
	"libvirt.org/go/libvirtxml"

	"github.com/openberth/berth/agent/hypervisor"
)

// virtio is the model of devices without a choice of the image.
const virtio = "virtio"

// guestAgent is the name of the channel that the guest agent of QEMU opens.
const guestAgent = "org.qemu.guest_agent.0"

// addFirmware replaces the BIOS of a guest by UEFI. Its console is the serial port without a choice.
func addFirmware(d *Domain, f Firmware) {
	if f.Loader == "" {
		return
	}
	d.OS.BIOS, d.OS.NVRam = nil, &libvirtxml.DomainNVRam{NVRam: f.NVRAM}
	d.OS.Loader = &libvirtxml.DomainLoader{Readonly: "yes", Type: "pflash", Path: f.Loader}
	if f.Secure {
		d.OS.Loader.Secure, d.Features.SMM = "yes", &libvirtxml.DomainFeatureSMM{State: "on"}
	}
}

// FirmwareOf returns the firmware of a domain.
func FirmwareOf(d Domain) Firmware {
	if d.OS == nil || d.OS.Loader == nil || d.OS.NVRam == nil || d.OS.NVRam.NVRam == "" {
		return Firmware{}
	}
	return Firmware{Loader: d.OS.Loader.Path, NVRAM: d.OS.NVRam.NVRam, Secure: d.OS.Loader.Secure == "yes"}
}

// addHardware changes the devices of a guest as its image chooses.
func addHardware(d *libvirtxml.DomainDeviceList, h hypervisor.Hardware) {
	if h.DiskBus != "" {
		for i := range d.Disks {
			disk := &d.Disks[i]
			disk.Target = &libvirtxml.DomainDiskTarget{Dev: "sd" + string(rune('a'+i)), Bus: h.DiskBus}
			if h.DiskBus == "sata" && disk.ReadOnly != nil {
				disk.Device = "cdrom" // QEMU has no disk of SATA that is not writable
			}
		}
	}
	if h.DiskBus == "scsi" && len(d.Disks) > 0 {
		d.Controllers = append(d.Controllers, libvirtxml.DomainController{Type: "scsi", Model: "virtio-scsi"})
	}
	if h.GuestAgent {
		d.Channels = append(d.Channels, libvirtxml.DomainChannel{
			Source: &libvirtxml.DomainChardevSource{UNIX: &libvirtxml.DomainChardevSourceUNIX{}},
			Target: &libvirtxml.DomainChannelTarget{VirtIO: &libvirtxml.DomainChannelTargetVirtIO{Name: guestAgent}}})
	}
	if h.Video != "" && h.Video != noVideo {
		d.Videos = append(d.Videos, libvirtxml.DomainVideo{Model: libvirtxml.DomainVideoModel{Type: h.Video}})
	}
}

// noVideo is the model of a guest without a video device.
const noVideo = "none"

// addDisplay adds a VNC server on a UNIX socket, which only the host's root can open, and what a user needs: a video
// device and a pointer. A keyboard exists in every guest.
func addDisplay(d *libvirtxml.DomainDeviceList, h hypervisor.Hardware) {
	if h.Video == noVideo {
		return
	}
	if len(d.Videos) == 0 {
		d.Videos = append(d.Videos, libvirtxml.DomainVideo{Model: libvirtxml.DomainVideoModel{Type: "vga"}})
	}
	d.Inputs = append(d.Inputs, libvirtxml.DomainInput{Type: "tablet", Bus: "usb"})
	d.Graphics = append(d.Graphics, libvirtxml.DomainGraphic{VNC: &libvirtxml.DomainGraphicVNC{
		Listeners: []libvirtxml.DomainGraphicListener{{Socket: &libvirtxml.DomainGraphicListenerSocket{}}}}})
}

// DisplaySocket returns the path of the UNIX socket of the VNC server of a running domain; empty: it has none.
func (d Domain) DisplaySocket() string {
	for _, g := range d.list().Graphics {
		if g.VNC == nil {
			continue
		}
		for _, l := range g.VNC.Listeners {
			if l.Socket != nil && l.Socket.Socket != "" {
				return l.Socket.Socket
			}
		}
		if g.VNC.Socket != "" {
			return g.VNC.Socket
		}
	}
	return ""
}

// Firmware is the UEFI firmware of a guest. The zero value is BIOS.
type Firmware struct {
	Loader string // path of its code on the host
	NVRAM  string // path of the guest's file with its variables
	Secure bool   // secure boot
}

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
	if h.Video != "" {
		d.Videos = append(d.Videos, libvirtxml.DomainVideo{Model: libvirtxml.DomainVideoModel{Type: h.Video}})
	}
}

// Firmware is the UEFI firmware of a guest. The zero value is BIOS.
type Firmware struct {
	Loader string // path of its code on the host
	NVRAM  string // path of the guest's file with its variables
	Secure bool   // secure boot
}

package domainxml

import "github.com/openberth/berth/agent/hypervisor"

// virtio is the model of devices without a choice of the image.
const virtio = "virtio"

// guestAgent is the name of the channel that the guest agent of QEMU opens.
const guestAgent = "org.qemu.guest_agent.0"

// addFirmware replaces the BIOS of a guest by UEFI. Its console is the serial port without a choice.
func addFirmware(d *Domain, f Firmware) {
	if f.Loader == "" {
		return
	}
	d.OS.BIOS, d.OS.NVRAM = nil, f.NVRAM
	d.OS.Loader = &Loader{ReadOnly: "yes", Type: "pflash", Path: f.Loader}
	if f.Secure {
		d.OS.Loader.Secure, d.Features.SMM = "yes", &SMM{"on"}
	}
}

// FirmwareOf returns the firmware of a domain.
func FirmwareOf(d Domain) Firmware {
	if d.OS.Loader == nil || d.OS.NVRAM == "" {
		return Firmware{}
	}
	return Firmware{Loader: d.OS.Loader.Path, NVRAM: d.OS.NVRAM, Secure: d.OS.Loader.Secure == "yes"}
}

// addHardware changes the devices of a guest as its image chooses.
func addHardware(d *Devices, h hypervisor.Hardware) {
	if h.DiskBus != "" {
		for i := range d.Disks {
			disk := &d.Disks[i]
			disk.Target = Target{Dev: "sd" + string(rune('a'+i)), Bus: h.DiskBus}
			if h.DiskBus == "sata" && disk.ReadOnly != nil {
				disk.Device = "cdrom" // QEMU has no disk of SATA that is not writable
			}
		}
	}
	if h.DiskBus == "scsi" && len(d.Disks) > 0 {
		d.Controllers = append(d.Controllers, Controller{Type: "scsi", Model: "virtio-scsi"})
	}
	if h.GuestAgent {
		d.Channels = append(d.Channels, Channel{Type: "unix", Target: ChannelTarget{Type: virtio, Name: guestAgent}})
	}
	if h.Video != "" {
		d.Videos = append(d.Videos, Video{VideoModel{h.Video}})
	}
}

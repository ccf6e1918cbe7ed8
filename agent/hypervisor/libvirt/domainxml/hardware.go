package domainxml

import "github.com/openberth/berth/agent/hypervisor"

// virtio is the model of devices without a choice of the image.
const virtio = "virtio"

// guestAgent is the name of the channel that the guest agent of QEMU opens.
const guestAgent = "org.qemu.guest_agent.0"

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

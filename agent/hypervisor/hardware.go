package hypervisor

// Hardware is what the image of a guest chooses of the machine, in the words of Nova's image properties. The zero value
// is what every driver gives.
type Hardware struct {
	Machine    string // hw_machine_type; empty: that of the driver
	DiskBus    string // hw_disk_bus; empty: virtio
	NICModel   string // hw_vif_model; empty: virtio
	Video      string // hw_video_model; empty: none
	GuestAgent bool   // hw_qemu_guest_agent: a channel for the guest agent of QEMU
}

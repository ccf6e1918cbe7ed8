package hypervisor

// Hardware is what the image of a guest, and for secure boot its flavor, chooses of the machine, in the words of Nova.
// The zero value is what every driver gives.
type Hardware struct {
	Machine    string // hw_machine_type; empty: that of the driver
	DiskBus    string // hw_disk_bus; empty: virtio
	NICModel   string // hw_vif_model; empty: virtio
	Video      string // hw_video_model; empty: none
	GuestAgent bool   // hw_qemu_guest_agent: a channel for the guest agent of QEMU
	Firmware   string // hw_firmware_type: uefi; empty: BIOS
	SecureBoot string // os_secure_boot or os:secure_boot, with UEFI: required or optional; empty: disabled
}

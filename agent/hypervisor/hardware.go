package hypervisor

// Hardware is what the image of a guest, and for secure boot its flavor, chooses of the machine, in the words of Nova.
// The zero value is what every driver gives.
type Hardware struct {
	Machine    string `json:"machine_type,omitempty"`  // hw_machine_type; empty: that of the driver
	DiskBus    string `json:"disk_bus,omitempty"`      // hw_disk_bus; empty: virtio
	NICModel   string `json:"vif_model,omitempty"`     // hw_vif_model; empty: virtio
	Video      string `json:"video_model,omitempty"`   // hw_video_model; empty: that of the driver; or none
	GuestAgent bool   `json:"guest_agent,omitempty"`   // hw_qemu_guest_agent: a channel for the guest agent of QEMU
	Firmware   string `json:"firmware_type,omitempty"` // hw_firmware_type: uefi; empty: BIOS
	// os_secure_boot or os:secure_boot, with UEFI: required or optional; empty: disabled
	SecureBoot string `json:"secure_boot,omitempty"`
}

package flavor

import "testing"

// The properties of an image become the choices of a guest, except what every guest has.
func TestHardwareOf(t *testing.T) {
	for want, properties := range map[Hardware]map[string]string{
		{}: {"hw_disk_bus": "virtio", "hw_vif_model": "VIRTIO", "hw_video_model": "none", "hw_qemu_guest_agent": "no"},
		{DiskBus: "sata", NICModel: "e1000", Video: "vga", GuestAgent: true}: {"hw_disk_bus": " SATA",
			"hw_vif_model": "e1000", "hw_video_model": "vga", "hw_qemu_guest_agent": "Yes"},
		{GuestAgent: true}:      {"hw_qemu_guest_agent": "true", "hw_machine_type": "q35"},
		{Machine: "pc-q35-7.2"}: {"hw_machine_type": "pc-q35-7.2"},
	} {
		i := Image{Properties: properties}
		if got := HardwareOf(i); got != want {
			t.Errorf("%v: %+v, want %+v", properties, got, want)
		}
		if err := CheckProperties(Flavor{}, i, nil); err != nil {
			t.Error(err)
		}
	}
}

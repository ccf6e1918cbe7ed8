package record

import (
	"testing"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
)

// An agent gets what the image of a server chooses, as stored with the server, and a change of it is one of the
// assignment.
func TestAssignedHardware(t *testing.T) {
	s := lifecycle.Server{ID: "s", ImageSnapshot: &flavor.Image{Properties: map[string]string{
		"hw_machine_type": "pc-q35-6.2", "hw_disk_bus": "scsi", "hw_vif_model": "e1000", "hw_video_model": "vga",
		"hw_qemu_guest_agent": "yes", "hw_firmware_type": "uefi"}}}
	var e lifecycle.Entry
	e.Flavor.ExtraSpecs = map[string]string{"os:secure_boot": "required"}
	got := ToAssignment(e, s)
	if want := (host.Hardware{Machine: "pc-q35-6.2", DiskBus: "scsi", NICModel: "e1000", Video: "vga",
		GuestAgent: true, Firmware: "uefi", SecureBoot: "required"}); got.Hardware != want {
		t.Errorf("%+v, want %+v", got.Hardware, want)
	}
	s.ImageSnapshot = nil
	if plain := ToAssignment(e, s); plain.Hardware != (host.Hardware{}) || plain.Equal(got) {
		t.Errorf("without an image: %+v", plain.Hardware)
	}
}

package flavor

import (
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
)

// The properties of an image become the choices of a guest, except what every guest has.
func TestHardwareOf(t *testing.T) {
	for want, properties := range map[Hardware]map[string]string{
		{Video: "none"}: {"hw_disk_bus": "virtio", "hw_vif_model": "VIRTIO", "hw_video_model": "none",
			"hw_qemu_guest_agent": "no"},
		{DiskBus: "sata", NICModel: "e1000", Video: "vga", GuestAgent: true}: {"hw_disk_bus": " SATA",
			"hw_vif_model": "e1000", "hw_video_model": "vga", "hw_qemu_guest_agent": "Yes"},
		{GuestAgent: true}: {"hw_qemu_guest_agent": "true", "hw_machine_type": "q35"},
		{Machine: "pc-q35-7.2"}: {"hw_machine_type": "pc-q35-7.2", "hw_firmware_type": "BIOS",
			"os_secure_boot": "optional"},
		{Firmware: "uefi"}:                         {"hw_firmware_type": "UEFI", "os_secure_boot": "disabled"},
		{Firmware: "uefi", SecureBoot: "optional"}: {"hw_firmware_type": "uefi", "os_secure_boot": "Optional"},
		{Firmware: "uefi", SecureBoot: "required", Machine: "pc-q35-7.2"}: {"hw_firmware_type": "uefi",
			"os_secure_boot": "required", "hw_machine_type": "pc-q35-7.2"},
	} {
		i := Image{Properties: properties}
		if got := HardwareOf(Flavor{}, i); got != want {
			t.Errorf("%v: %+v, want %+v", properties, got, want)
		}
		if err := CheckProperties(Flavor{}, i, nil); err != nil {
			t.Error(err)
		}
		if err := CheckSecureBoot(Flavor{}, i, nil); err != nil {
			t.Error(err)
		}
	}
}

// A flavor and an image agree about secure boot, and a guest that requires it has UEFI and q35.
func TestSecureBoot(t *testing.T) {
	for _, c := range []struct {
		spec, property, firmware, machine string
		want, refused                     string // the hardware, or a part of the reason
	}{
		{spec: "required", firmware: "uefi", want: "required"},
		{spec: "Required", property: "required", firmware: "uefi", machine: "q35", want: "required"},
		{spec: "optional", firmware: "uefi", want: "optional"},
		{spec: "optional", firmware: "bios"},
		{spec: "optional"},
		{spec: "disabled", firmware: "uefi"},
		{spec: "disabled", property: "disabled"},
		{property: "required", firmware: "uefi", machine: "pc-q35-7.2", want: "required"},
		{spec: "required", property: "disabled", firmware: "uefi", refused: "write the same value in both"},
		{spec: "disabled", property: "required", firmware: "uefi", refused: "write the same value in both"},
		{spec: "optional", property: "required", firmware: "uefi", refused: "write the same value in both"},
		{spec: "required", refused: "extra spec os:secure_boot of flavor f is \"required\", and the image does not choose"},
		{property: "required", firmware: "bios", refused: "set its property hw_firmware_type=uefi"},
		{property: "required", firmware: "uefi", machine: "pc", refused: "the machine type pc of the image has no"},
	} {
		f, i := Flavor{Name: "f", ExtraSpecs: map[string]string{}}, Image{Properties: map[string]string{}}
		if c.spec != "" {
			f.ExtraSpecs["os:secure_boot"] = c.spec
		}
		for key, value := range map[string]string{"os_secure_boot": c.property, "hw_firmware_type": c.firmware,
			"hw_machine_type": c.machine} {
			if value != "" {
				i.Properties[key] = value
			}
		}
		err := CheckSecureBoot(f, i, nil)
		switch {
		case c.refused == "" && err != nil, c.refused != "" && (!fault.Is(err, fault.Invalid) ||
			!strings.Contains(err.Error(), c.refused)):
			t.Errorf("%+v: %v", c, err)
		case c.refused == "" && HardwareOf(f, i).SecureBoot != c.want:
			t.Errorf("%+v: %+v", c, HardwareOf(f, i))
		}
		if err := CheckSecureBoot(f, i, []string{"os*"}); err != nil {
			t.Errorf("ignored: %v", err)
		}
	}
}

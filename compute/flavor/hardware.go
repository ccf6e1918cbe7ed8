package flavor

// Hardware is what an image, and for secure boot a flavor, chooses of the machine of a guest, in the words of the
// properties. Empty fields are what every guest has.
type Hardware struct {
	Machine    string
	DiskBus    string
	NICModel   string
	Video      string
	GuestAgent bool
	Firmware   string
	SecureBoot string
}

// HardwareOf returns what the properties of a flavor and an image choose. CheckProperties and CheckSecureBoot have
// accepted them.
func HardwareOf(f Flavor, i Image) Hardware {
	get := func(key, usual string) string {
		value := word(i.Properties[key])
		if value == usual {
			return ""
		}
		return value
	}
	agent := get("hw_qemu_guest_agent", "")
	firmware := ""
	if word(i.Properties[firmwareProperty]) == uefi {
		firmware = uefi
	}
	return Hardware{Machine: get(machineProperty, "q35"), DiskBus: get("hw_disk_bus", virtio),
		NICModel: get("hw_vif_model", virtio), Video: get("hw_video_model", ""),
		GuestAgent: agent == "true" || truth[agent] == "true", Firmware: firmware,
		SecureBoot: secureBootOf(f, i)}
}

const virtio = "virtio"

const quiesceProperty = "os_require_quiesce"

// RequiresQuiesce reports whether a running guest of an image must freeze its file systems while its disk is copied.
func RequiresQuiesce(i Image) bool {
	value := word(i.Properties[quiesceProperty])
	return value == "true" || truth[value] == "true"
}

package flavor

import "strings"

// Hardware is what an image chooses of the machine of a guest, in the words of its properties. Empty fields are what
// every guest has.
type Hardware struct {
	Machine    string
	DiskBus    string
	NICModel   string
	Video      string
	GuestAgent bool
}

// HardwareOf returns what the properties of an image choose. CheckProperties has accepted them.
func HardwareOf(i Image) Hardware {
	get := func(key, usual string) string {
		value := strings.ToLower(strings.TrimSpace(i.Properties[key]))
		if value == usual {
			return ""
		}
		return value
	}
	agent := get("hw_qemu_guest_agent", "")
	return Hardware{Machine: get("hw_machine_type", "q35"), DiskBus: get("hw_disk_bus", virtio),
		NICModel: get("hw_vif_model", virtio), Video: get("hw_video_model", "none"),
		GuestAgent: agent == "true" || truth[agent] == "true"}
}

const virtio = "virtio"

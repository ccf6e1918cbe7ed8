package servers

import (
	"encoding/json"
	"strings"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/edge"
)

// blockDevices is the key of the disks of a new server.
const blockDevices = "block_device_mapping_v2"

// readBootDisk reads a list of disks that has only the local root disk, made of an image: the disk that every server
// has. It sets the image, which must be that of imageRef if both are given. Other lists need volumes or further disks,
// and are left to be refused.
func readBootDisk(o *edge.Object, image *string) {
	var list []map[string]any
	if json.Unmarshal(o.Keys[blockDevices], &list) != nil || len(list) != 1 {
		return
	}
	disk := list[0]
	source, _ := disk["source_type"].(string)
	destination, _ := disk["destination_type"].(string)
	if source != "image" || destination != "local" || !isZero(disk["boot_index"]) {
		return
	}
	for key, value := range disk {
		if !strings.Contains(bootDiskKeys, " "+key+" ") && value != nil {
			return
		}
	}
	text, _ := disk["uuid"].(string)
	id, err := uuid.Parse(text)
	if err != nil {
		o.Invalid(blockDevices, "%q is not the UUID of an image", edge.Clip(text))
		return
	}
	if *image != "" && *image != id.String() {
		o.Invalid(blockDevices, "the image of the root disk is not that of imageRef; give one of them")
		return
	}
	*image = id.String()
	delete(o.Keys, blockDevices)
}

// bootDiskKeys are the keys of a root disk that describe the disk of every server.
const bootDiskKeys = " boot_index delete_on_termination destination_type source_type uuid "

// isZero reports whether a number or a text is 0.
func isZero(value any) bool {
	number, isNumber := value.(float64)
	return isNumber && number == 0 || value == "0"
}

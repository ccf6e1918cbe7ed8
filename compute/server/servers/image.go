package servers

import (
	"encoding/json"
	"strings"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
)

// FindImage reads the image for a server of a flavor and returns a snapshot of it. With check, it refuses an image that
// promises what Berth does not do. missing is the Compute API's
// sentence for an image that does not exist. It returns nil without an image service or without an image.
func (s *Handlers) FindImage(c *request.Call, f flavor.Flavor, id, missing string, check bool) (*flavor.Image, error) {
	if s.Images == nil || id == "" {
		return nil, nil
	}
	i, err := s.Images.Image(c.R.Context(), c.Who, c.R.Header.Get("X-Auth-Token"), id)
	switch fault.KindOf(err) {
	case "":
	case fault.NotFound:
		return nil, fault.New(fault.Invalid, "%s: there is no image %s for project %s", missing, id, c.Who.Project)
	case fault.Forbidden:
		s.Log.Warn("image service rejects the token", "image", id, "request", c.ID, "error", err)
		return nil, fault.New(fault.Invalid, "Not authorized for image %s", id)
	default:
		s.Log.Warn("image not read", "image", id, "request", c.ID, "error", err)
		if c.Who.IsAdmin() {
			return nil, fault.New(fault.Unavailable, "Image %s cannot be read now, so nothing was done: %w", id, err)
		}
		return nil, fault.New(fault.Unavailable, "Image %s cannot be read now, so nothing was done; try again later",
			id)
	}
	if i.Status != image.Active {
		return nil, fault.New(fault.Invalid, "Image %s is not active: its status is %s", id, edge.Clip(i.Status))
	}
	if check {
		all := flavor.Image{Properties: i.Properties}
		if err := flavor.CheckProperties(flavor.Flavor{VCPUs: f.VCPUs}, all, s.Catalog.Ignored); err != nil {
			return nil, err
		}
	}
	snapshot := snapshotOf(i, s.Catalog.Ignored)
	if err := flavor.Fits(f, snapshot); err != nil {
		return nil, err
	}
	snapshot.MinDisk = max(snapshot.MinDisk, f.DiskGB) // a disk is not shrunk: no resize to a smaller one, as in Nova
	return &snapshot, nil
}

// CheckZeroDisk returns fault.Forbidden for an image and a flavor whose root disk has 0 GiB, unless the policy lets the
// caller use such flavors: the disk has the size of the image then, which no inventory and no quota counts (Nova's
// os_compute_api:servers:create:zero_disk_flavor).
func (s *Handlers) CheckZeroDisk(c *request.Call, f flavor.Flavor, image string) error {
	if s.Images == nil || image == "" || f.DiskGB > 0 || c.Authorize(policies.UseZeroDiskFlavor, c.Owner()) == nil {
		return nil
	}
	return fault.New(fault.Forbidden, "Only volume-backed servers are allowed for flavors with zero disk: flavor %s "+
		"has no root disk for image %s; choose a flavor with a disk", f.Name, image)
}

// snapshotOf returns the fields and properties of an image that affect the placement and the guest of a server. They
// are stored with the server, so that later changes of the image have no effect on it. Ignored properties are left out.
func snapshotOf(i image.Image, ignored []string) flavor.Image {
	out := flavor.Image{ID: i.ID, Name: i.Name, MinRAM: i.MinRAM, MinDisk: i.MinDisk, Size: i.Size,
		Properties: map[string]string{}}
	for key, value := range i.Properties {
		placed := strings.HasPrefix(key, "hw_") || strings.HasPrefix(key, "trait:") || key == "os_secure_boot"
		if placed && !flavor.IsIgnored(key, ignored) {
			out.Properties[key] = value
		}
	}
	return out
}

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

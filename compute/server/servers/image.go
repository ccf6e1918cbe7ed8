package servers

import (
	"strings"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
)

// findImage reads the image for a server of a flavor and returns a snapshot of it. With check, it refuses an image that
// promises what Berth does not do. missing is the Compute API's
// sentence for an image that does not exist. It returns nil without an image service or without an image.
func (s *Handlers) findImage(c *request.Call, f flavor.Flavor, id, missing string, check bool) (*flavor.Image, error) {
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
		return nil, fault.New(fault.Unavailable, "Image %s cannot be read now, so nothing was done; try again later", id)
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

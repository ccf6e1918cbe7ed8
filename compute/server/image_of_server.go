package server

import (
	"net/url"
	"strings"

	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// findImage reads the image for a server of a flavor and returns a snapshot of it. With check, it refuses an image that
// promises what Berth does not do. missing is the Compute API's
// sentence for an image that does not exist. It returns nil without an image service or without an image.
func (s *server) findImage(c *request.Call, f flavor.Flavor, id, missing string, check bool) (*flavor.Image, error) {
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
		return nil, fault.New(fault.Invalid, "Image %s is not active: its status is %s", id, request.Clip(i.Status))
	}
	if check {
		all := flavor.Image{Properties: i.Properties}
		if err := flavor.CheckProperties(flavor.Flavor{VCPUs: f.VCPUs}, all, s.Ignored); err != nil {
			return nil, err
		}
	}
	snapshot := snapshotOf(i, s.Ignored)
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

// rebuildFrom checks the image for the rebuild of a server and returns a snapshot of it. If the server has the image
// already, it returns the stored snapshot, even if the image has been changed since; but the image must still exist.
func (s *server) rebuildFrom(c *request.Call, found lifecycle.Server, id string) (*flavor.Image, error) {
	stored := id == found.Image && found.ImageSnapshot != nil
	now, err := s.findImage(c, found.Flavor, id, "Cannot find image for rebuild", !stored)
	if err != nil || now == nil && id != found.Image {
		return nil, err
	}
	if now == nil || stored {
		return found.ImageSnapshot, nil
	}
	if err := flavor.CheckSecureBoot(found.Flavor, *now, s.Ignored); err != nil {
		return nil, err
	}
	more, err := flavor.CheckRebuild(found.Flavor, found.SourceImage(), *now)
	if err != nil {
		return nil, err
	}
	return now, s.hasTraits(c, found, *now, more)
}

// hasTraits returns fault.Invalid if an image requires additional traits that the server's host does not have in
// Placement.
func (s *server) hasTraits(c *request.Call, found lifecycle.Server, i flavor.Image, more []resource.Trait) error {
	if len(more) == 0 {
		return nil
	}
	names := strings.Join(request.Texts(more), ",")
	missing := fault.New(fault.Invalid, "Image %s requires traits that the server's host does not have, or not all "+
		"of them: %s; a rebuild does not change the host, so create another server", i.ID, names)
	if s.Providers == nil || len(found.Choices) == 0 {
		return missing
	}
	root := found.Choices[0].Root
	list, err := s.Providers.Providers(c.R.Context(), url.Values{"uuid": {string(root)}, "required": {names}})
	switch {
	case fault.Is(err, fault.Invalid): // the trait does not exist
		return missing
	case err != nil:
		return err
	case len(list) == 0:
		return missing
	}
	return nil
}

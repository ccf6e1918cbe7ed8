package server

import (
	"context"
	"net/url"
	"strings"

	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Images is what the handlers need of an image service; *image.Client is one. An image that the caller may not see is fault.NotFound; a token
// that is not let in, fault.Forbidden; a service that does not answer, fault.Unavailable.
type Images interface {
	Image(ctx context.Context, who identity.Identity, token, id string) (image.Image, error)
}

// Providers is what the handlers need of Placement; *placement.Client is one. A query with a trait that Placement does not know is fault.Invalid.
type Providers interface {
	Providers(ctx context.Context, query url.Values) ([]provider.Provider, error)
}

// findImage reads the image that a server of a flavor is to be made from, and freezes it. missing is the Compute API's sentence for an image
// that is not there. Without an image service, and without an image, there is nothing to look for: nil.
func (s *server) findImage(c *call, f flavor.Flavor, id, missing string) (*flavor.Image, error) {
	if s.Images == nil || id == "" {
		return nil, nil
	}
	i, err := s.Images.Image(c.r.Context(), c.who, c.r.Header.Get("X-Auth-Token"), id)
	switch fault.KindOf(err) {
	case "":
	case fault.NotFound:
		return nil, fault.New(fault.Invalid, "", "%s: there is no image %s for project %s", missing, id, c.who.Project)
	case fault.Forbidden:
		s.Log.Warn("the image service lets nobody in", "image", id, "request", c.w.Header().Get("X-Compute-Request-Id"), "error", err)
		return nil, fault.New(fault.Invalid, "", "Not authorized for image %s", id)
	default:
		s.Log.Warn("the image service cannot be asked", "image", id, "request", c.w.Header().Get("X-Compute-Request-Id"), "error", err)
		if c.who.IsAdmin() {
			return nil, fault.New(fault.Unavailable, "", "Image %s cannot be looked at now, so nothing was done: %w", id, err)
		}
		return nil, fault.New(fault.Unavailable, "", "Image %s cannot be looked at now, so nothing was done; try again later", id)
	}
	if i.Status != image.Active {
		return nil, fault.New(fault.Invalid, "", "Image %s is not active: its status is %s", id, clip(i.Status))
	}
	frozen := snapshotOf(i)
	if err := flavor.Fits(f, frozen); err != nil {
		return nil, err
	}
	frozen.MinDisk = max(frozen.MinDisk, f.DiskGB) // a disk that has been made of it does not shrink: no resize to a smaller one, as with Nova
	return &frozen, nil
}

// freeze keeps of an image what has a say in where a server may lie: it counts as it is now for as long as the server lives.
func snapshotOf(i image.Image) flavor.Image {
	out := flavor.Image{ID: i.ID, Name: i.Name, MinRAM: i.MinRAM, MinDisk: i.MinDisk, Size: i.Size, Properties: map[string]string{}}
	for key, value := range i.Properties {
		if strings.HasPrefix(key, "hw_") || strings.HasPrefix(key, "trait:") {
			out.Properties[key] = value
		}
	}
	return out
}

// rebuildFrom judges the image that a server is to be rebuilt from. The image that it has counts as it was frozen, whatever was changed of it
// since; but it has to be there still.
func (s *server) rebuildFrom(c *call, found lifecycle.Server, id string) (*flavor.Image, error) {
	now, err := s.findImage(c, found.Flavor, id, "Cannot find image for rebuild")
	if err != nil || now == nil && id != found.Image {
		return nil, err
	}
	if now == nil || id == found.Image && found.ImageSnapshot != nil {
		return found.ImageSnapshot, nil
	}
	more, err := flavor.Rebuilt(found.Flavor, found.SourceImage(), *now)
	if err != nil {
		return nil, err
	}
	return now, s.hasTraits(c, found, *now, more)
}

// hasTraits refuses an image that requires traits which the server's host was not asked for and does not have, as Placement knows it.
func (s *server) hasTraits(c *call, found lifecycle.Server, i flavor.Image, more []resource.Trait) error {
	if len(more) == 0 {
		return nil
	}
	names := strings.Join(texts(more), ",")
	missing := fault.New(fault.Invalid, "", "Image %s requires traits that the server's host does not have, or not all of them: %s; "+
		"a rebuild stays where it is: create another server", i.ID, names)
	if s.Providers == nil || len(found.Choices) == 0 {
		return missing
	}
	root := found.Choices[0].Root
	list, err := s.Providers.Providers(c.r.Context(), url.Values{"uuid": {string(root)}, "required": {names}})
	switch {
	case fault.Is(err, fault.Invalid): // nobody has ever had such a trait
		return missing
	case err != nil:
		return err
	case len(list) == 0:
		return missing
	}
	return nil
}

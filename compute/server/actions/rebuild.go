package actions

import (
	"net/url"
	"strings"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/compute/server/servers"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// rebuildFirstBoot decodes what a rebuild changes of the guest's first boot: key_name since 2.54, user_data since 2.57
// and hostname since 2.90. null removes them. It returns nil if neither is given. The key pair is one of the server's
// owner, as in Nova.
func (s *Handlers) rebuildFirstBoot(c *request.Call, o *edge.Object, found lifecycle.Server) (*lifecycle.FirstBoot,
	error) {
	changed := found.FirstBoot
	_, key := o.Keys["key_name"]
	_, data := o.Keys["user_data"]
	key, data = key && c.Has(compute.RebuildKeyPair), data && c.Has(compute.NoPersonality)
	if key {
		changed.KeyName = ""
		o.Text("key_name", &changed.KeyName, 255)
		var err error
		if changed.PublicKey, err = s.Catalog.PublicKey(c, found.User, changed.KeyName); err != nil {
			return nil, err
		}
	}
	if data {
		changed.UserData = servers.ReadUserData(o)
	}
	if name := servers.ReadHostname(c, o, &changed.Hostname); !key && !data && !name {
		return nil, nil
	}
	return &changed, nil
}

// rebuildFrom checks the image for the rebuild of a server and returns a snapshot of it. If the server has the image
// already, it returns the stored snapshot, even if the image has been changed since; but the image must still exist.
func (s *Handlers) rebuildFrom(c *request.Call, found lifecycle.Server, id string) (*flavor.Image, error) {
	stored := id == found.Image && found.ImageSnapshot != nil
	now, err := s.Servers.FindImage(c, found.Flavor, id, "Cannot find image for rebuild", !stored)
	if err == nil {
		err = s.Servers.CheckZeroDisk(c, found.Flavor, id)
	}
	if err != nil || now == nil && id != found.Image {
		return nil, err
	}
	if now == nil || stored {
		return found.ImageSnapshot, nil
	}
	if err := flavor.CheckSecureBoot(found.Flavor, *now, s.Catalog.Ignored); err != nil {
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
func (s *Handlers) hasTraits(c *request.Call, found lifecycle.Server, i flavor.Image, more []resource.Trait) error {
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

// writeRebuilt writes the answer to a rebuild: the server, its password, and since 2.57 its user data.
func (s *Handlers) writeRebuilt(c *request.Call, code int, now lifecycle.Server, password string) error {
	hosts, err := s.Servers.HostStates(c.R.Context(), c, now)
	if err != nil {
		return err
	}
	v, err := s.Servers.OneView(c, now, hosts)
	if err != nil {
		return err
	}
	v.AdminPass = servers.ShownPassword(s.Servers, password)
	if c.Has(compute.NoPersonality) {
		v.Rebuilt = &compute.Rebuilt{UserData: request.OrNull(now.UserData)}
	}
	var keep []string
	if c.Has(compute.RebuildKeyPair) {
		keep = append(keep, "key_name")
	}
	view, err := servers.ChangedView(c, v, keep...)
	if err != nil {
		return err
	}
	c.W.Header().Set("Location", c.Links("servers", now.ID)[0].HRef)
	return c.WriteJSON(code, map[string]any{"server": view})
}

func readRebuild(s *Handlers, c *request.Call, o *edge.Object, found lifecycle.Server,
	w *lifecycle.ActionRequested) (err error) {
	if _, given := o.Keys["imageRef"]; !given {
		o.Invalid("imageRef", "it is missing")
	}
	w.Image = servers.ReadImageRef(o)
	if _, given := o.Keys["name"]; given {
		w.Name = request.NameText(o, "name")
	}
	w.AdminPass, w.Details = servers.ReadPassword(o), servers.ReadDescribed(o)
	w.Details.Metadata = servers.ReadMetadataItems(o)
	if err := s.Catalog.CheckMetadata(c, len(w.Details.Metadata)); err != nil {
		return err
	}
	o.Flag("preserve_ephemeral", new(bool)) // ignored: only bare metal has an effect
	if _, given := o.Keys["description"]; given && c.Has(compute.ServerDescription) {
		w.Details.Description = new(string)
		o.Text("description", w.Details.Description, 255)
	}
	if w.FirstBoot, err = s.rebuildFirstBoot(c, o, found); err != nil {
		return err
	}
	if o.Err() == nil {
		w.ImageSnapshot, err = s.rebuildFrom(c, found, w.Image)
	}
	return err
}

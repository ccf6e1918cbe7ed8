package server

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/image/store"
)

// target returns the attributes of an image for the policy.
func (c *call) target(i store.Image) map[string]any {
	_, member := i.Members[c.Who.Project]
	shelved := i.Properties[image.ShelvedServer] != ""
	return map[string]any{"shelved": shelved, "project_id": i.Owner, "owner": i.Owner, "member_id": "",
		"visible": i.Visibility == "public" || i.Visibility == "community" || i.Visibility == "shared" && member}
}

// find returns the image of the path. Callers who may not see it get fault.NotFound, and callers who may not do what
// the rule guards the refusal of the policy. An image that cannot be read now is not missing.
func (c *call) find(rule string) (store.Image, error) {
	id := c.R.PathValue("id")
	i, err := c.srv.Store.Get(id)
	if fault.Is(err, fault.NotFound) {
		return store.Image{}, missing(id)
	}
	if err != nil {
		return store.Image{}, err
	}
	if ok, _ := c.Allowed("get_image", c.target(i)); !ok {
		return store.Image{}, missing(id)
	}
	return i, c.Authorize(rule, c.target(i))
}

func missing(id string) error {
	return fault.New(fault.NotFound, "there is no image %s that this project may see; openstack image list shows all",
		id)
}

// decode decodes the body.
func (c *call) decode(into any) error {
	body, err := c.ReadBody(maxBody)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if err := decoder.Decode(into); err != nil {
		return fault.New(fault.Invalid, "the body is not valid JSON for this request: %s", err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return fault.New(fault.Invalid, "the body has more than one JSON value")
	}
	return nil
}

func (s *server) createImage(c *call) error {
	var body map[string]any
	if err := c.decode(&body); err != nil {
		return err
	}
	i := store.Image{ID: uuid.NewString(), Owner: c.Who.Project, Visibility: "shared"}
	for name, value := range body {
		if err := set(&i, name, value); err != nil {
			return err
		}
	}
	if i.Owner != c.Who.Project && !c.Who.IsAdmin() {
		return fault.New(fault.Forbidden, "only an administrator creates images of another project; leave owner out")
	}
	if err := c.Authorize("add_image", c.target(i)); err != nil {
		return err
	}
	if err := c.authorizeVisibility(i.Visibility, i); err != nil {
		return err
	}
	i, err := s.Store.Create(i, s.Limits)
	if err != nil {
		return tooLarge(err)
	}
	c.W.Header().Set("Location", c.BaseURL()+"/v2/images/"+i.ID)
	if s.Imports != nil && len(s.Methods) > 0 {
		c.W.Header().Set("OpenStack-image-import-methods", strings.Join(s.Methods, ","))
	}
	c.W.Header().Set("OpenStack-image-store-ids", storeName)
	return c.WriteJSON(http.StatusCreated, view(i))
}

// authorizeVisibility checks the rules of a new visibility.
func (c *call) authorizeVisibility(visibility string, i store.Image) error {
	switch visibility {
	case "public":
		return c.Authorize("publicize_image", c.target(i))
	case "community":
		return c.Authorize("communitize_image", c.target(i))
	}
	return nil
}

func (s *server) showImage(c *call) error {
	i, err := c.find("get_image")
	if err != nil {
		return err
	}
	return c.WriteJSON(http.StatusOK, view(i))
}

// operation is one operation of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// patchTypes are the media types of patches. The second one has the operation and the path in one member, such as
// {"replace": "/name", "value": "new"}.
var patchTypes = []string{"application/openstack-images-v2.1-json-patch",
	"application/openstack-images-v2.0-json-patch"}

// readPatch decodes a patch of a media type.
func (c *call) readPatch(kind string) (patch []operation, err error) {
	if kind == patchTypes[0] {
		return patch, c.decode(&patch)
	}
	var old []map[string]any
	if err := c.decode(&old); err != nil {
		return nil, err
	}
	for _, members := range old {
		op := operation{Value: members["value"]}
		for _, name := range []string{"add", "replace", "remove"} {
			if path, is := members[name].(string); is {
				op.Op, op.Path = op.Op+name, path
			}
		}
		patch = append(patch, op)
	}
	return patch, nil
}

func (s *server) changeImage(c *call) error {
	kind, _, _ := strings.Cut(c.R.Header.Get("Content-Type"), ";")
	if !slices.Contains(patchTypes, strings.TrimSpace(kind)) {
		return edge.StatusErrorf(http.StatusUnsupportedMediaType, "the media type of a change is %s", patchTypes[0])
	}
	before, err := c.find("modify_image")
	if err != nil {
		return err
	}
	patch, err := c.readPatch(strings.TrimSpace(kind))
	if err != nil {
		return err
	}
	i, err := s.Store.Change(before.ID, func(i *store.Image) error {
		was := *i
		for _, op := range patch {
			if err := op.apply(i); err != nil {
				return err
			}
		}
		return c.checkChange(was, *i)
	})
	if err != nil {
		return err
	}
	return c.WriteJSON(http.StatusOK, view(i))
}

// checkChange refuses changes that no caller, or not this caller, may make.
func (c *call) checkChange(was, i store.Image) error {
	if i.ID != was.ID {
		return edge.StatusErrorf(http.StatusForbidden, "attribute id is read-only; leave it out")
	}
	if i.Owner != was.Owner && !c.Who.IsAdmin() {
		return fault.New(fault.Forbidden, "only an administrator changes the owner of an image")
	}
	fixed := was.Status != store.Queued && was.Status != store.Uploading
	if fixed && (i.DiskFormat != was.DiskFormat || i.ContainerFormat != was.ContainerFormat) {
		return edge.StatusErrorf(http.StatusForbidden, "disk_format and container_format of image %s are fixed, because it "+
			"has data; create another image", i.ID)
	}
	if i.Visibility != was.Visibility {
		return c.authorizeVisibility(i.Visibility, was)
	}
	return nil
}

// apply applies an operation to an image. A path has one element.
func (op operation) apply(i *store.Image) error {
	name, ok := strings.CutPrefix(op.Path, "/")
	if !ok || name == "" || strings.Contains(name, "/") {
		return fault.New(fault.Invalid, "path %q is not valid; write / and the name of an attribute", op.Path)
	}
	name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
	_, isProperty := i.Properties[name]
	_, isAttribute := attributes[name]
	switch {
	case op.Op == "add":
		return set(i, name, op.Value)
	case op.Op == "replace":
		if _, known := readOnly[name]; !isProperty && !isAttribute && name != "tags" && !known {
			return edge.StatusErrorf(http.StatusConflict, "the image has no property %s; use the operation add", name)
		}
		return set(i, name, op.Value)
	case op.Op == "remove" && isProperty:
		delete(i.Properties, name)
		return nil
	case op.Op == "remove" && (isAttribute || name == "tags" || readOnly[name] != ""):
		return edge.StatusErrorf(http.StatusForbidden, "attribute %s cannot be removed", name)
	case op.Op == "remove":
		return edge.StatusErrorf(http.StatusConflict, "the image has no property %s", name)
	}
	return fault.New(fault.Invalid, "operation %q is not known; use add, replace or remove", op.Op)
}

func (s *server) deleteImage(c *call) error {
	i, err := c.find("delete_image")
	if err != nil {
		return err
	}
	if i.Protected {
		return fault.New(fault.Forbidden, "image %s is protected; remove the protection first "+
			"(openstack image set --unprotected %s)", i.ID, i.ID)
	}
	if s.Imports != nil {
		s.Imports.cancel(c.R.Context(), i.ID)
	}
	return c.Done(http.StatusNoContent, s.Store.Delete(i.ID))
}

func (s *server) act(c *call) error {
	action := c.R.PathValue("action")
	to, ok := map[string]store.Status{"deactivate": store.Deactivated, "reactivate": store.Active}[action]
	if !ok {
		return fault.New(fault.NotFound, "there is no action %q of images; use deactivate or reactivate", action)
	}
	i, err := c.find(action)
	if err != nil {
		return err
	}
	_, err = s.Store.Change(i.ID, func(i *store.Image) error {
		if !i.HasData() {
			return fault.New(fault.Forbidden, "image %s has status %s; only one with data has this action", i.ID, i.Status)
		}
		i.Status = to
		return nil
	})
	if err != nil {
		return err
	}
	return c.WriteStatus(http.StatusNoContent)
}

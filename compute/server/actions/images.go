package actions

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/compute/server/servers"
)

// readSnapshot decodes createImage.
func readSnapshot(_ *Handlers, _ *request.Call, o *edge.Object, _ lifecycle.Server,
	w *lifecycle.ActionRequested) error {
	readImageCopy(o, &w.Copy)
	return nil
}

// readBackup decodes createBackup.
func readBackup(_ *Handlers, _ *request.Call, o *edge.Object, _ lifecycle.Server, w *lifecycle.ActionRequested) error {
	readImageCopy(o, &w.Copy)
	o.Require("backup_type", "rotation")
	o.Text("backup_type", &w.Copy.BackupType, 255)
	o.Number("rotation", &w.Copy.Rotation, 0, 1<<31-1)
	if o.Err() == nil && w.Copy.BackupType == "" {
		o.Invalid("backup_type", "it is empty, and should be a name such as daily")
	}
	return nil
}

// readImageCopy decodes the name and the properties of an image that gets a copy of a disk.
func readImageCopy(o *edge.Object, into *lifecycle.ImageCopy) {
	o.Require("name")
	o.Text("name", &into.Name, 255)
	if o.Err() == nil && (into.Name == "" || strings.TrimSpace(into.Name) != into.Name) {
		o.Invalid("name", "it is empty, or begins or ends with spaces")
	}
	into.Properties = servers.ReadMetadataItems(o)
	for _, key := range slices.Sorted(maps.Keys(into.Properties)) {
		if slices.Contains(imageAttributes, key) {
			o.Invalid("metadata", "%s is an attribute of the image, and not a property that can be set here", key)
		}
	}
}

// imageAttributes are the attributes of an image that compute or the image service sets.
var imageAttributes = []string{"checksum", "container_format", "created_at", "deleted", "deleted_at", "direct_url",
	"disk_format", "file", "id", "locations", "min_disk", "min_ram", "name", "os_hash_algo", "os_hash_value",
	"os_hidden",
	"owner", "protected", "schema", "self", "size", "status", "stores", "tags", "updated_at", "virtual_size",
	"visibility"}

// How long an answer waits until the image service has the image, and how often that is looked at.
const (
	imageCreateTime = 20 * time.Second
	imageCreatePoll = 10 * time.Millisecond
)

// answerImage writes the answer to createImage and createBackup, when the image service has the image: clients read it
// at once. Before 2.45 its URL is in the header Location, except of a backup that is not kept.
func (s *Handlers) answerImage(c *request.Call, now lifecycle.Server, w lifecycle.ActionRequested) error {
	limit := time.Now().Add(imageCreateTime)
	for now.LastAction == w.ID && (now.Task == lifecycle.ImageSnapshot || now.Task == lifecycle.ImageBackup) &&
		time.Now().Before(limit) {
		select {
		case <-c.R.Context().Done():
			return c.R.Context().Err()
		case <-time.After(imageCreatePoll):
		}
		var err error
		if now, err = s.Store.Read(c.R.Context(), now.ID); err != nil {
			return err
		}
	}
	if c.Has(compute.ImageIDInBody) {
		return c.WriteJSON(http.StatusAccepted, map[string]string{"image_id": w.ID})
	}
	if w.Action == lifecycle.Snapshot || w.Copy.Rotation > 0 {
		c.W.Header().Set("Location", c.Links("images", w.ID)[0].HRef)
	}
	return c.WriteStatus(http.StatusAccepted)
}

package conductor

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
)

// imageService returns the image service; Unavailable if none is configured any more.
func (d *dependencies) imageService() (Images, error) {
	if d.Images == nil {
		return nil, fault.New(fault.Unavailable, "compute has no image service; configure [glance]")
	}
	return d.Images, nil
}

// createImage creates the image for the disk of a server. The image has no data, and the mark of the
// server. An image that an earlier attempt has created counts.
func (d *dependencies) createImage(ctx context.Context, s lifecycle.Server) (lifecycle.Event, error) {
	images, err := d.imageService()
	if err != nil {
		return nil, err
	}
	id := s.ShelvedImage.ID
	err = images.Create(ctx, imageAttributes(s))
	if fault.Is(err, fault.Conflict) {
		var found image.Image
		if found, err = images.Image(ctx, id); err == nil && found.Properties[image.ShelvedServer] != s.ID {
			err = fault.New(fault.Conflict, "there is another image %s", id)
		}
	}
	switch {
	case err == nil:
		return lifecycle.ImageCreated{ID: id}, nil
	case isFinal(err):
		return lifecycle.Refused{Step: lifecycle.CreateImage, Reason: fault.TextOf(err)}, nil
	}
	return nil, err
}

// isFinal reports whether an image service gives the same answer again.
func isFinal(err error) bool {
	switch fault.KindOf(err) {
	case fault.Conflict, fault.NotFound, fault.Forbidden, fault.Invalid:
		return true
	}
	return false
}

// imageAttributes returns the attributes of the image for the disk of a server, under Nova's names. What the user
// requests of a copy replaces what it inherits from the image of the server.
func imageAttributes(s lifecycle.Server) map[string]any {
	const longest = 255 // of an image's name
	name := []rune(s.Name)
	name = append(name[:min(len(name), longest-len("-shelved"))], []rune("-shelved")...)
	source, kind := s.SourceImage(), "snapshot"
	all := map[string]any{}
	inherit(all, source.Properties)
	if c := s.ShelvedImage.Copy; c != nil {
		inherit(all, c.Properties)
		if name = []rune(c.Name); c.BackupType != "" {
			kind, all["backup_type"] = "backup", c.BackupType
		}
	}
	all["id"], all["name"], all["owner"] = s.ShelvedImage.ID, string(name), s.Project
	all["visibility"], all["tags"] = "private", []string{image.ShelvedTag}
	all["disk_format"], all["container_format"] = s.ShelvedImage.Format, "bare"
	all["min_disk"], all["min_ram"] = max(s.Flavor.DiskGB, source.MinDisk), source.MinRAM
	all["image_type"], all["instance_uuid"], all["user_id"] = kind, s.ID, s.User
	all[image.ShelvedServer] = s.ID
	if delete(all, "base_image_ref"); s.Image != "" {
		all["base_image_ref"] = s.Image
	}
	return all
}

// notInherited are the properties of an image that those made from its servers do not have, as with Nova: the signature
// is of other data, and the rest is about the image itself.
var notInherited = []string{"cache_in_nova", "bittorrent", "img_signature_hash_method", "img_signature",
	"img_signature_key_type", "img_signature_certificate_uuid", image.ShelvedServer, "backup_type"}

// inherit copies properties.
func inherit(to map[string]any, properties map[string]string) {
	for key, value := range properties {
		if !slices.Contains(notInherited, key) && !strings.HasPrefix(key, "os_glance") {
			to[key] = value
		}
	}
}

// checkImage compares the image with what the agent has uploaded. Only then the guest and its disk of a server that is
// shelved are removed. An image that has a copy then belongs to the user, and replaces the oldest backup.
func (d *dependencies) checkImage(ctx context.Context, s lifecycle.Server) (lifecycle.Event, error) {
	images, err := d.imageService()
	if err != nil {
		return nil, err
	}
	want := *s.ShelvedImage
	found, err := images.Image(ctx, want.ID)
	switch {
	case fault.Is(err, fault.NotFound):
		err = fault.New(fault.NotFound, "the image %s with its disk was deleted", want.ID)
	case err != nil:
	case found.Status != image.Active:
		err = fault.New(fault.Conflict, "the image %s with its disk has the status %s", want.ID, found.Status)
	case found.Size != want.Bytes || found.HashAlgo == "sha512" && !strings.EqualFold(found.HashValue, want.SHA512):
		err = fault.New(fault.Conflict, "the image %s does not have the uploaded data", want.ID)
	}
	if err == nil && want.Copy != nil {
		err = d.finishCopy(ctx, s, found)
	}
	switch {
	case err == nil:
		return lifecycle.ImageChecked{ID: want.ID, Keep: d.keepsShelved()}, nil
	case isFinal(err):
		return lifecycle.Refused{Step: lifecycle.CheckImage, Reason: fault.TextOf(err)}, nil
	}
	return nil, err
}

// deleteImage deletes an image that a server does not need any more. An image without the mark of the server stays: it
// is a finished copy, which belongs to its user, and the record is from a backup. An image that the image service
// finally refuses to delete, because it is protected for example, stays too.
func (d *dependencies) deleteImage(ctx context.Context, s lifecycle.Server) (lifecycle.Event, error) {
	images, err := d.imageService()
	if err != nil {
		return nil, err
	}
	id := s.UnusedImages[0]
	found, err := images.Image(ctx, id)
	if err == nil && found.Properties[image.ShelvedServer] != s.ID {
		d.Log.Warn("an image is not deleted: it is not marked as one of its server", "image", id, "server", s.ID)
		return lifecycle.ImageDeleted{ID: id, Refused: "it belongs to its user"}, nil
	}
	if err == nil {
		err = images.Delete(ctx, id)
	}
	switch {
	case err == nil || fault.Is(err, fault.NotFound):
		return lifecycle.ImageDeleted{ID: id}, nil
	case isFinal(err):
		d.Log.Warn("the image service does not delete an image that is not needed any more; delete it yourself",
			"image", id, "server", s.ID, "error", err)
		return lifecycle.ImageDeleted{ID: id, Refused: fault.TextOf(err)}, nil
	default:
		return nil, err
	}
}

// hasDisk reports whether the guest of a server has a disk that its driver has made.
func hasDisk(s lifecycle.Server, host schedule.Host) bool {
	return s.HasDisk() && host.DiskImages != schedule.NoDisks
}

// finishCopy removes compute's marks from an image that has a copy of a disk, and deletes older backups.
func (d *dependencies) finishCopy(ctx context.Context, s lifecycle.Server, found image.Image) error {
	if found.Properties[image.ShelvedServer] != "" {
		if err := d.Images.Unmark(ctx, found.ID); err != nil {
			return err
		}
	}
	wanted := s.ShelvedImage.Copy
	if wanted.BackupType == "" {
		return nil
	}
	// Everybody can set these properties, and compute may delete the images of all projects.
	all, err := d.Images.List(ctx, url.Values{"owner": {s.Project}, "instance_uuid": {s.ID}, "image_type": {"backup"},
		"backup_type": {wanted.BackupType}, "status": {image.Active}})
	if err != nil && isFinal(err) { // the new backup is complete
		d.Log.Warn("the image service does not list backups; delete old ones yourself", "server", s.ID, "error", err)
		return nil
	}
	if err != nil {
		return err
	}
	for _, old := range all[min(wanted.Rotation, len(all)):] {
		switch err := d.Images.Delete(ctx, old.ID); {
		case err == nil || fault.Is(err, fault.NotFound):
		case isFinal(err):
			d.Log.Warn("the image service does not delete an old backup; delete it yourself", "image", old.ID, "server", s.ID,
				"error", err)
		default:
			return err
		}
	}
	return nil
}

// prepareShelve returns why a server cannot be shelved without the loss of its disk, or an empty string and the format
// of the image that its disk becomes; none if it has no disk.
func (d *dependencies) prepareShelve(ctx context.Context, s lifecycle.Server) (format, refusal string, err error) {
	return d.prepareUpload(ctx, s, fmt.Sprintf("Cannot 'shelve' instance %s, because its disk would be lost: ", s.ID))
}

// prepareCopy returns why the disk of a server cannot be copied to an image, or an empty string and its format.
func (d *dependencies) prepareCopy(ctx context.Context, s lifecycle.Server, action lifecycle.Action) (format,
	refusal string, err error) {
	cannot := fmt.Sprintf("Cannot '%s' instance %s: ", action, s.ID)
	format, refusal, err = d.prepareUpload(ctx, s, cannot)
	if err == nil && refusal == "" && format == "" {
		refusal = cannot + "its guest has no disk in a file"
	}
	return format, refusal, err
}

// prepareUpload returns why the disk of a server cannot become an image, beginning with cannot, or an empty string and
// the format of the image; none if the server has no disk.
func (d *dependencies) prepareUpload(ctx context.Context, s lifecycle.Server, cannot string) (format, refusal string,
	err error) {
	host, err := d.store.Host(ctx, s.Host)
	switch {
	case fault.Is(err, fault.NotFound):
		return "", cannot + "nothing is known of its host", nil
	case err != nil || !hasDisk(s, host):
		return "", "", err
	case d.Images == nil:
		return "", cannot + "compute has no image service; configure [glance]", nil
	case host.DiskImages == "" && host.NoDiskImages == "":
		return "", cannot + "its host has not reported yet whether it can upload disks; try again", nil
	case host.DiskImages == "":
		return "", cannot + host.NoDiskImages, nil
	}
	return host.DiskImages, "", nil
}

// refuseUnshelve returns why a server cannot be unshelved, or an empty string.
func (d *dependencies) refuseUnshelve(ctx context.Context, s lifecycle.Server, a lifecycle.ActionRequested) string {
	if !s.ShelvedAt.IsZero() { // its guest has the disk
		if a.To == "" && a.Zone == nil {
			return ""
		}
		return fmt.Sprintf("Cannot 'unshelve' instance %s to a host or an availability zone: it is on host %s still, in "+
			"vm_state shelved; offload it first (shelveOffload)", s.ID, s.Host)
	}
	if s.ShelvedImage == nil {
		return ""
	}
	if d.Images == nil {
		return fmt.Sprintf("Cannot 'unshelve' instance %s: compute has no image service; configure [glance]", s.ID)
	}
	if _, err := d.Images.Image(ctx, s.ShelvedImage.ID); fault.Is(err, fault.NotFound) {
		return fmt.Sprintf("Cannot 'unshelve' instance %s: the image %s with its disk was deleted; delete the server", s.ID,
			s.ShelvedImage.ID)
	}
	return "" // an image service that does not answer is asked again by the agent
}

// refuseEvacuation returns why a server is not evacuated whose image has data that its agent has not reported; empty if
// it may be evacuated. The image may be the only copy of its disk, and an evacuation deletes it.
func (d *dependencies) refuseEvacuation(ctx context.Context, s lifecycle.Server) (string, error) {
	id := s.UnreportedUpload()
	if id == "" || d.Images == nil {
		return "", nil
	}
	found, err := d.Images.Image(ctx, id)
	if fault.Is(err, fault.NotFound) || err == nil && found.Status != image.Active {
		return "", nil
	}
	return fmt.Sprintf("Cannot 'evacuate' instance %s: it is being shelved, and the image %s has its disk, which it "+
		"would lose; copy or protect the image, reset the state of the server, and repeat the action", s.ID, id), err
}

// losesDisk reports whether an evacuated server loses the disk that it has on its host.
func (d *dependencies) losesDisk(ctx context.Context, s lifecycle.Server) (bool, error) {
	host, err := d.store.Host(ctx, s.Host)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return false, err
	}
	return hasDisk(s, host), nil
}

// halfUploadsEvery is how often images without data are looked for.
const halfUploadsEvery = 10 * time.Minute

// halfUploads deletes images without data that no server needs: the answer to a request that creates an image may come
// after compute has given it up. An image with data is never deleted because a record lacks it: it becomes its user's,
// such as a copy of the disk of a server that was deleted before the copy was checked. The images of servers that
// compute does not know may belong to another cloud with the same image service, and stay.
type halfUploads struct {
	*dependencies
	before map[string]bool // those that the last call has found
}

// remove handles the images that the call before has found, too. An image that the image service finally refuses to
// change, because its user has protected it for example, does not keep the others; the first one is the error.
func (h *halfUploads) remove(ctx context.Context) (refused error) {
	if h.Images == nil {
		return nil
	}
	ctx, stop, err := h.leased(ctx)
	if err != nil {
		return err
	}
	defer stop()
	all, err := h.Images.List(ctx, url.Values{"tag": {image.ShelvedTag}})
	if err != nil {
		return err
	}
	found := map[string]bool{}
	for _, i := range all {
		half := i.Status == "queued" || i.Status == "saving"
		if !half && i.Status != image.Active {
			continue
		}
		s, err := h.store.Read(ctx, i.Properties[image.ShelvedServer])
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if s.ShelvedImage != nil && s.ShelvedImage.ID == i.ID || slices.Contains(s.UnusedImages, i.ID) {
			continue
		}
		if found[i.ID] = true; !h.before[i.ID] {
			continue
		}
		change, done := h.Images.Delete, "image without data deleted"
		if !half {
			change, done = h.Images.Unmark, "image with data is its user's"
		}
		switch err := change(ctx, i.ID); {
		case err == nil || fault.Is(err, fault.NotFound):
			h.Log.Info(done, "image", i.ID, "server", i.Properties[image.ShelvedServer])
			delete(found, i.ID)
		case !isFinal(err):
			return err
		case refused == nil:
			refused = fmt.Errorf("image %s, which no server needs, is neither deleted nor unmarked: %w", i.ID, err)
		}
	}
	h.before = found
	return refused
}

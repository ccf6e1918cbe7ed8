package fake

import (
	"context"
	"os"
	"strings"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/imagecache"
	"github.com/openberth/berth/fault"
)

// Images are the images of the host; *imagecache.Cache implements it and documents its faults.
type Images interface {
	Get(ctx context.Context, id string) (imagecache.Base, error)
	Upload(ctx context.Context, id, path string, resume bool) (hypervisor.ImageData, error)
	NoUploads() string
}

var _ hypervisor.Uploader = (*Hypervisor)(nil)

// sector is the unit of the size of a disk, in bytes.
const sector = 512

// addDiskImages adds to the capacity what the disks can become.
func (h *Hypervisor) addDiskImages(c *hypervisor.Capacity) {
	if h.Images == nil {
		c.NoDiskImages = "its agent has no image service; configure [glance]"
		return
	}
	if c.NoDiskImages = h.Images.NoUploads(); c.NoDiskImages == "" {
		c.DiskImages = "raw"
	}
}

// Upload implements hypervisor.Uploader: the content of the disk, in whole sectors, becomes a raw image. Nothing is
// left of it: Start removes the file of a process that was killed.
func (h *Hypervisor) Upload(ctx context.Context, id string, to hypervisor.Upload) (hypervisor.ImageData, error) {
	none := hypervisor.ImageData{}
	if err := h.begin(ctx, "upload", id); err != nil {
		return none, err
	}
	if h.Images == nil {
		return none, fault.New(fault.Conflict, "the host has no image service; configure [glance]")
	}
	h.mu.Lock()
	content, err := h.diskToUpload(id, to)
	h.mu.Unlock()
	if err != nil {
		return none, err
	}
	file, err := os.CreateTemp(h.dir, uploadPrefix)
	if err != nil {
		return none, fault.Wrap(fault.Unavailable, err)
	}
	defer os.Remove(file.Name())
	_, err = file.WriteString(content + strings.Repeat("\x00", sector-len(content)%sector))
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return none, fault.Wrap(fault.Unavailable, err)
	}
	return h.Images.Upload(ctx, to.Image, file.Name(), false)
}

// EndUpload implements hypervisor.Uploader.
func (h *Hypervisor) EndUpload(ctx context.Context, id string) error {
	return h.begin(ctx, "end upload", id)
}

// uploadPrefix is that of the names of files that are uploaded.
const uploadPrefix = "upload-"

// diskToUpload returns the content of the disk of a guest. One that runs has no file systems that could be frozen.
func (h *Hypervisor) diskToUpload(id string, to hypervisor.Upload) (string, error) {
	if !to.Copy {
		return h.stoppedDisk(id)
	}
	g, err := h.readGuest(id)
	if err == nil && to.Quiesce && !g.Stopped {
		err = fault.New(fault.Conflict, "the guest %s has no guest agent that freezes its file systems", id)
	}
	if err != nil {
		return "", err
	}
	return h.diskAt(id)
}

// diskOfImage returns the content of the disk of a guest that is built from the data of an image; ok is false if the
// guest exists, or has another disk.
func (h *Hypervisor) diskOfImage(ctx context.Context, g hypervisor.Guest) (content string, ok bool, err error) {
	if g.DiskImage == "" {
		return "", false, nil
	}
	if _, err := os.Stat(h.path(g.ID)); err == nil {
		return "", false, nil
	}
	if h.Images == nil {
		return "", false, fault.New(fault.Conflict, "the image %s with the disk of the guest %s cannot be read: the "+
			"host has no image service; configure [glance]", g.DiskImage, g.ID)
	}
	base, err := h.Images.Get(ctx, g.DiskImage)
	if err != nil {
		return "", false, err
	}
	data, err := os.ReadFile(base.Path)
	if err == nil {
		err = os.Remove(base.Path) // no other guest is built from it
	}
	return strings.TrimRight(string(data), "\x00"), true, fault.Wrap(fault.Unavailable, err)
}

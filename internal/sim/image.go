package sim

import (
	"context"
	"fmt"
	"net/url"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/fault"
)

func (c imageClient) do(effect func() error) error {
	before, after := c.process.fault()
	if before != nil {
		return before
	}
	if err := effect(); err != nil {
		return err
	}
	return after
}

// Image returns an image.
func (c imageClient) Image(_ context.Context, id string) (i image.Image, err error) {
	err = c.do(func() error {
		found, exists := c.all[id]
		if !exists {
			return notFound("image", id)
		}
		i = image.Image{ID: id, Status: "queued", Properties: map[string]string{}}
		if found.marked {
			i.Properties[image.ShelvedServer] = found.server
		}
		if found.data {
			i.Status, i.Size, i.HashAlgo, i.HashValue = image.Active, 1, "sha512", fmt.Sprint(found.content)
		}
		return nil
	})
	return i, err
}

// Create creates an image without data.
func (c imageClient) Create(_ context.Context, attributes map[string]any) error {
	return c.do(func() error {
		id := attributes["id"].(string)
		if _, exists := c.all[id]; exists {
			return fault.New(fault.Conflict, "there is an image %s", id)
		}
		_, copied := attributes["snapshot_of"]
		c.all[id] = simImage{server: attributes[image.ShelvedServer].(string), marked: true, copied: copied}
		return nil
	})
}

// Delete deletes an image, which must not be a user's.
func (c imageClient) Delete(_ context.Context, id string) error {
	return c.do(func() error {
		found, exists := c.all[id]
		if !exists {
			return notFound("image", id)
		}
		if !found.marked {
			c.violation(nil, "image: %s is deleted, a finished copy of the disk of server %s, which is its user's", id,
				found.server)
		}
		delete(c.all, id)
		return nil
	})
}

// List is not called: nothing is done periodically, and there are no backups.
func (imageClient) List(context.Context, url.Values) ([]image.Image, error) { return nil, nil }

// Unmark makes an image one of its user.
func (c imageClient) Unmark(_ context.Context, id string) error {
	return c.do(func() error {
		found, exists := c.all[id]
		if !exists {
			return notFound("image", id)
		}
		found.marked = false
		c.all[id] = found
		return nil
	})
}

// uploadDisk makes the disk of a guest the data of an image.
func (im *imageModel) uploadDisk(m *simHost, e state.Upload) (hypervisor.ImageData, error) {
	g, i := m.guests[e.ID], im.all[e.To.Image]
	_, exists := im.all[e.To.Image]
	if g != nil && e.To.Copy {
		g.Uploads = e.To.Image
	}
	switch {
	case g == nil || !g.Stopped && !e.To.Copy:
		return hypervisor.ImageData{}, fault.New(fault.Unavailable, "the guest %s is not stopped", e.ID)
	case !exists:
		return hypervisor.ImageData{}, notFound("image", e.To.Image)
	case im.chance(Builds, 30):
		return hypervisor.ImageData{}, fault.New(fault.Conflict, "the disk of the host is full")
	}
	i.data, i.content = true, m.content[e.ID]
	im.all[e.To.Image] = i
	if im.report.Happened["disk uploaded"]++; i.copied {
		im.report.Happened["disk copied to an image"]++
	}
	return hypervisor.ImageData{Bytes: 1, SHA512: fmt.Sprint(i.content)}, nil
}

// downloadDisk returns the content of a disk that is made from an image.
func (im *imageModel) downloadDisk(id string) (int, error) {
	i := im.all[id]
	if !i.data {
		return 0, fault.New(fault.NotFound, "the image %s does not exist any more", id)
	}
	im.report.Happened["disk from an image"]++
	return i.content, nil
}

// simImage is an image with the disk of a server, which is shelved or copied.
type simImage struct {
	server  string
	data    bool
	marked  bool // as one of server
	copied  bool // the image has a copy of the disk
	content int  // of the disk, with data
}

// imageModel is the image service.
type imageModel struct {
	*hostModel
	all  map[string]simImage
	lost map[string]bool // servers whose records a restore has changed: their images may be lost or left
}

// imageClient is the image service for one process of compute. A call may fail before or after its effect.
type imageClient struct {
	*imageModel
	process *process
}

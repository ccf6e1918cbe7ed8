package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/reconcile"
	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/compute/lifecycle"
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
		found, exists := c.w.images[id]
		if !exists {
			return notFound("image", id)
		}
		i = image.Image{ID: id, Status: "queued", Properties: map[string]string{image.ShelvedServer: found.server}}
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
		if _, exists := c.w.images[id]; exists {
			return fault.New(fault.Conflict, "there is an image %s", id)
		}
		c.w.images[id] = simImage{server: attributes[image.ShelvedServer].(string)}
		return nil
	})
}

// Delete deletes an image.
func (c imageClient) Delete(_ context.Context, id string) error {
	return c.do(func() error {
		if _, exists := c.w.images[id]; !exists {
			return notFound("image", id)
		}
		delete(c.w.images, id)
		return nil
	})
}

// Tagged is not called: nothing is done periodically.
func (imageClient) Tagged(context.Context, string) ([]image.Image, error) { return nil, nil }

// uploadDisk makes the disk of a guest the data of an image.
func (w *World) uploadDisk(m *simHost, e reconcile.Upload) (hypervisor.ImageData, error) {
	g, i := m.guests[e.ID], w.images[e.Image]
	_, exists := w.images[e.Image]
	switch {
	case g == nil || !g.Stopped:
		return hypervisor.ImageData{}, fault.New(fault.Unavailable, "the guest %s is not stopped", e.ID)
	case !exists:
		return hypervisor.ImageData{}, notFound("image", e.Image)
	case w.chance(Builds, 30):
		return hypervisor.ImageData{}, fault.New(fault.Conflict, "the disk of the host is full")
	}
	i.data, i.content = true, m.content[e.ID]
	w.images[e.Image] = i
	w.report.Happened["disk uploaded"]++
	return hypervisor.ImageData{Bytes: 1, SHA512: fmt.Sprint(i.content)}, nil
}

// downloadDisk returns the content of a disk that is made from an image.
func (w *World) downloadDisk(id string) (int, error) {
	i := w.images[id]
	if !i.data {
		return 0, fault.New(fault.NotFound, "the image %s does not exist any more", id)
	}
	w.report.Happened["disk from an image"]++
	return i.content, nil
}

// checkShelvedDisk: the guest of a server that is shelved is destroyed only when an image has its disk.
func (w *World) checkShelvedDisk(m *simHost, id string) {
	s := w.compute.servers[id]
	if s.State != lifecycle.Shelving || s.Host != m.name || w.rolledBack[id] || m.guests[id] == nil || m.zombie {
		return
	}
	if s.ShelvedImage == nil {
		w.violation(m, "shelve: the guest %s is destroyed, and no image has its disk", id)
	} else if i := w.images[s.ShelvedImage.ID]; !i.data || i.content != m.content[id] {
		w.violation(m, "shelve: the guest %s is destroyed, and the image %s has not its disk", id, s.ShelvedImage.ID)
	}
}

// checkImages: a shelved server has its image, and no image is left that no server needs.
func (w *World) checkImages() {
	needed := map[string]bool{}
	for id, s := range w.compute.servers {
		if s.ShelvedImage == nil {
			continue
		}
		needed[s.ShelvedImage.ID] = true
		if s.State == lifecycle.Shelved && !w.images[s.ShelvedImage.ID].data && !w.lostImages[id] {
			w.violation(nil, "image: the shelved server %s has no image with its disk", id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(w.images)) {
		if !needed[id] && !w.lostImages[w.images[id].server] {
			w.violation(nil, "image: %s of server %s is left", id, w.images[id].server)
		}
	}
}

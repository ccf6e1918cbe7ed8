package app

import (
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
)

// images returns a client of the cloud's image service.
func (l *lab) images() image.Catalogue {
	return image.Catalogue{REST: &rest.Client{Base: "http://image", HTTP: rest.InMemory(l.cloud.Image.Handler),
		Headers: map[string]string{"X-Auth-Token": "admin"}}}
}

// image uploads an image and returns its id.
func (l *lab) image() string {
	l.t.Helper()
	made, err := l.images().Create(l.t.Context(), map[string]any{"name": "small", "disk_format": "raw",
		"container_format": "bare"})
	if err == nil {
		err = l.images().Upload(l.t.Context(), made.ID, strings.NewReader("data"), 0, 4)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	return made.ID
}

// Compute reads images from the image service of the same process: an unknown image is refused.
func TestImagesOfTheOwnService(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.up("")
	defer l.down()
	flavor, err := l.compute().CreateFlavor(t.Context(), compute.CreateFlavor{Name: "small", VCPUs: 1, RAM: 64, Disk: 1})
	if err != nil {
		t.Fatal(err)
	}
	create := func(image string) error {
		_, err := l.compute().CreateServer(t.Context(), compute.CreateServer{Name: "s", Flavor: flavor.ID, Image: image})
		return err
	}
	if err := create(l.image()); err != nil {
		t.Error(err)
	}
	if err := create("70a599e0-31e7-49b7-b260-868f441e862b"); !fault.Is(err, fault.Invalid) {
		t.Errorf("an unknown image: %v", err)
	}
}

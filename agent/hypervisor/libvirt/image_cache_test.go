package libvirt

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/imagecache"
)

// TestSizeOfImages checks what the driver knows of the size of the copies of images, without libvirt.
func TestSizeOfImages(t *testing.T) {
	t.Parallel()
	base := filepath.Join(t.TempDir(), "_base")
	d := &Driver{}
	d.o.Log = slog.New(slog.DiscardHandler)
	d.o.Images = imagecache.New(base, nil, d.o.Log)
	d.o.Cleanup = Cleanup{Every: time.Hour, Most: 1000}
	want := func(what string, size hypervisor.ImageCache, isKnown bool) {
		t.Helper()
		if got, known := d.ImageCache(); got != size || known != isKnown {
			t.Errorf("%s: %+v %v, want %+v %v", what, got, known, size, isKnown)
		}
	}
	want("before the first measurement", hypervisor.ImageCache{}, false)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	d.Maintain(ended)
	want("without a copy", hypervisor.ImageCache{Limit: 1000}, true)
	must(t, os.Mkdir(base, 0o711))
	must(t, os.WriteFile(filepath.Join(base, rawImage+".raw"), make([]byte, 8192), 0o600))
	must(t, os.WriteFile(filepath.Join(base, "notes"), make([]byte, 8192), 0o600))
	if over := measureImages(d, time.Now()); !over {
		t.Error("8192 bytes are not over the limit of 1000")
	}
	want("with a copy, and a file that is not of the cache", hypervisor.ImageCache{Bytes: 8192, Limit: 1000}, true)
	d.o.Cleanup.Every = 0 // then no copies are removed
	d.last.Store(nil)
	d.Maintain(ended)
	want("without removal", hypervisor.ImageCache{Bytes: 8192}, true)
	if over := measureImages(d, time.Now().Add(-2*sizeKnownFor)); over {
		t.Error("over a limit that does not hold")
	}
	want("long after the last measurement", hypervisor.ImageCache{}, false)
	must(t, os.RemoveAll(base))
	must(t, os.WriteFile(base, nil, 0o600))
	if over := measureImages(d, time.Now()); over {
		t.Error("an unreadable directory is over the limit")
	}
	want("without a result", hypervisor.ImageCache{}, false)
}

package app

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/settings"
)

// The image service of a data directory, or of a directory of images that several data directories name, runs once. It
// does not exclude compute.
func TestImageServiceLocksItsImages(t *testing.T) {
	t.Parallel()
	images := filepath.Join(t.TempDir(), "images")
	file := filepath.Join(t.TempDir(), "berth.conf")
	if err := os.WriteFile(file, []byte("[glance_store]\nfilesystem_store_datadir = "+images+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	elsewhere, err := settings.Read(log, file)
	if err != nil {
		t.Fatal(err)
	}
	below, err := settings.Read(log)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		s           settings.Settings
		dir, second string
	}{"below": {below, filepath.Dir(images), filepath.Dir(images)}, "elsewhere": {elsewhere, t.TempDir(), t.TempDir()}} {
		compute, err := Lock(c.dir, ComputeLock)
		if err != nil {
			t.Fatal(err)
		}
		first, err := OpenImage(c.dir, c.s, log)
		if err != nil {
			t.Fatal(name, err)
		}
		if _, err := OpenImage(c.second, c.s, log); !fault.Is(err, fault.Conflict) ||
			!strings.Contains(err.Error(), "of the service image") {
			t.Errorf("%s, a second one: %v", name, err)
		}
		if err := first.Close(); err != nil {
			t.Error(err)
		}
		again, err := OpenImage(c.second, c.s, log)
		if err != nil {
			t.Fatal(name, err)
		}
		for _, closer := range []func() error{again.Close, io.Closer(compute).Close} {
			if err := closer(); err != nil {
				t.Error(err)
			}
		}
	}
}

package sysfs

import (
	"io/fs"
	"os"
	"reflect"
	"testing"
	"testing/fstest"

	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/fault"
)

// A tree without a list of devices is an error, not a machine without devices: otherwise all providers would be
// deleted.
func TestReadWithoutPCI(t *testing.T) {
	empty := fstest.MapFS{deviceDir: {Mode: fs.ModeDir | 0o755}}
	found, err := Read(empty)
	if err != nil || !reflect.DeepEqual(found, facts.Facts{NICsRead: true}) {
		t.Errorf("a machine without devices: %v %v", found, err)
	}
	if err := Check(empty, "/x"); err != nil {
		t.Errorf("a machine without devices: %v", err)
	}
	for name, fsys := range map[string]fs.FS{
		"nothing":            fstest.MapFS{},
		"an empty directory": os.DirFS(t.TempDir()),
		"another directory":  fstest.MapFS{"pci/devices/0000:00:00.0/vendor": {}},
		"a file":             fstest.MapFS{deviceDir: {}},
	} {
		if found, err := Read(fsys); !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: %v %v", name, found, err)
		}
		err := Check(fsys, "/x")
		if !fault.Is(err, fault.Invalid) || fault.TextOf(err) != "/x has no bus/pci/devices: it is not shaped like /sys" {
			t.Errorf("%s: %v", name, err)
		}
		if text, err := Capture(fsys); !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s was captured: %v\n%s", name, err, text)
		}
	}
	if _, err := Read(struct{ fs.FS }{fstest.MapFS{}}); !fault.Is(err, fault.Internal) {
		t.Errorf("a file system without symlinks: %v", err)
	}
}

package sysfs

import (
	"reflect"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
)

func TestLoadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"-- /a --\n":                     "not a path",
		"-- ../a --\n":                   "not a path",
		"-- . --\n":                      "not a path",
		"-- a --\n-- a --\n":             "twice",
		"-- a --\n-- a -> b --\n":        "twice",
		"-- a -> b --\nx\n":              "has content",
		"-- a --\n-- a/b --\n":           "not a directory",
		"-- a -> c --\n-- a/b --\n":      "not a directory",
		"-- a -> /b --\n":                "outside",
		"-- a -> ../b --\n":              "outside",
		"-- a/b -> .. --\n":              "outside",
		"-- a -> a --\n":                 "through the symlink",
		"-- a -> b --\n-- b -> a --\n":   "through the symlink",
		"-- a -> b/c --\n-- b -> d --\n": "through the symlink",
		"-- a/ --\nx\n":                  "is a directory and has content",
		"-- a !! b --\nx\n":              "cannot be read and has content",
		"-- a --\n-- a !! b --\n":        "twice",
		"-- a !! b --\n-- a/b --\n":      "not a directory",
		"-- %2Fa --\n":                   "not a path",
		"-- b/%2E%2E/a --\n":             "not a path",
	} {
		if fsys, err := Load([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v %v, want %q", text, fsys, err, want)
		}
	}
	for _, text := range []string{"", "all but a capture\n", "-- devices/system/node/node0/cpulist --\n0-3\n",
		"-- bus/pci/devices --\n"} {
		if _, err := Load([]byte(text)); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "no device") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Whatever an archive holds, it is refused or can be read to the end.
func FuzzLoad(f *testing.F) {
	f.Add("-- bus/pci/devices/0000:00:00.0/vendor --\n0x8086\n-- bus/pci/devices/0000:00:00.0/device --\n0x1\n")
	f.Add("-- bus/pci/devices/0000:01:00.1 -> ../../../d --\n-- d/vendor --\n0x8086\n-- d/device --\n0x1515\n-- " +
		"d/class --\n0x020000\n-- d/physfn -> ../0000:01:00.0 --\n")
	f.Add("-- a -> a --\n")
	f.Add("-- bus/pci/devices/0000:01:00.1/ --\n-- bus/pci/devices/a%20b --\n-- bus/pci/devices/0000:01:00.2/vendor " +
		"!! permission denied --\n-- bus/pci/devices/0000:01:00.3 !! file does not exist --\n")
	f.Add("-- devices/system/node/node0/cpulist --\n0-3\n")
	f.Fuzz(func(t *testing.T, text string) {
		fsys, err := Load([]byte(text))
		if err != nil {
			return
		}
		found, err := Read(fsys)
		if err != nil {
			return
		}
		for _, d := range found.Devices {
			if d.Vendor == "" || d.Product == "" || d.Type == "" {
				t.Errorf("%#v", d)
			}
		}
		captured, err := Capture(fsys)
		if err != nil {
			if len(found.Devices)+len(found.Problems) > 0 {
				t.Fatal(err)
			}
			return
		}
		loaded, err := Load(captured)
		if err != nil {
			t.Fatalf("the capture cannot be loaded: %v\n%s", err, captured)
		}
		if again := read(t, loaded); !reflect.DeepEqual(again, found) {
			t.Errorf("capture:\n%v\nmachine:\n%v\n%s", again, found, captured)
		}
	})
}

package sysfs

import (
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/openberth/berth/pci"
)

func TestReadHealth(t *testing.T) {
	const counts = "Undefined 0\nDLP 1\nTLP 2\nTOTAL_ERR_%s 3\n"
	aer := func(files map[string]string) map[string]string {
		files["aer_dev_fatal"] = strings.ReplaceAll(counts, "%s", "FATAL")
		files["aer_dev_nonfatal"] = strings.ReplaceAll(counts, "%s 3", "NONFATAL 4")
		return files
	}
	for name, c := range map[string]struct {
		files map[string]string
		want  Health
	}{
		"no device":              {nil, Health{}},
		"without error counters": {map[string]string{"vendor": "0x8086"}, Health{Exists: true}},
		"error counters":         {aer(map[string]string{}), Health{Exists: true, Counted: true, Fatal: 3, Nonfatal: 4}},
		"it answers":             {map[string]string{"config": "\x86\x80\xff\xff"}, Health{Exists: true}},
		"it does not answer":     {map[string]string{"config": "\xff\xff\xff\xff"}, Health{Exists: true, Silent: true}},
		"it sleeps":              {map[string]string{"config": "\xff\xff", "power_state": "D3cold\n"}, Health{Exists: true}},
		"it is awake": {map[string]string{"config": "\xff\xff", "power_state": "D0\n"},
			Health{Exists: true, Silent: true}},
		"a VF": {map[string]string{"config": "\xff\xff", "physfn": "../0000:3b:00.0"}, Health{Exists: true, VF: true}},
	} {
		fsys := fstest.MapFS{"bus/pci/devices": {Mode: fs.ModeDir}}
		for file, text := range c.files {
			mode := fs.FileMode(0)
			if file == "physfn" {
				mode = fs.ModeSymlink
			}
			fsys["bus/pci/devices/0000:3b:00.1/"+file] = &fstest.MapFile{Data: []byte(text), Mode: mode}
		}
		got, err := ReadHealth(fsys, pci.Address{Bus: 0x3b, Func: 1})
		if err != nil || got != c.want {
			t.Errorf("%s: %+v %v, want %+v", name, got, err, c.want)
		}
	}
}

func TestReadHealthNamesTheFile(t *testing.T) {
	for file, text := range map[string]string{"aer_dev_fatal": "TOTAL_ERR_FATAL many", "aer_dev_nonfatal": "RxErr 0"} {
		fsys := fstest.MapFS{
			"bus/pci/devices/0000:3b:00.1/aer_dev_fatal":    {Data: []byte("TOTAL_ERR_FATAL 0")},
			"bus/pci/devices/0000:3b:00.1/aer_dev_nonfatal": {Data: []byte("TOTAL_ERR_NONFATAL 0")},
		}
		fsys["bus/pci/devices/0000:3b:00.1/"+file].Data = []byte(text)
		if _, err := ReadHealth(fsys, pci.Address{Bus: 0x3b, Func: 1}); err == nil ||
			!strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// deadFS is a file system in which the configuration space of a device cannot be read.
type deadFS struct{ fstest.MapFS }

func (d deadFS) Open(name string) (fs.File, error) {
	if strings.HasSuffix(name, "/config") {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EIO}
	}
	return d.MapFS.Open(name)
}

func TestReadHealthOfADeviceThatCannotBeRead(t *testing.T) {
	fsys := deadFS{fstest.MapFS{"bus/pci/devices/0000:3b:00.1/vendor": {Data: []byte("0x8086")}}}
	if h, err := ReadHealth(fsys, pci.Address{Bus: 0x3b, Func: 1}); err != nil || !h.Silent {
		t.Errorf("%+v %v", h, err)
	}
}

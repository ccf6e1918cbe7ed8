package fake

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/pci"
)

// TestFormatOfFiles: the files of a directory are read, and are written in the same form.
func TestFormatOfFiles(t *testing.T) {
	const source = "testdata/guests"
	h, err := New(source, hypervisor.Capacity{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := h.Guests(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []hypervisor.Guest{
		{ID: "6a1e55dd-c027-8000-88d0-99cd7486f41d", Name: "stopped", VCPUs: 1, MemoryMB: 128, DiskGB: 1, Stopped: true},
		{
			ID: "b1b02628-1267-8000-a444-32e3ad8e5542", Name: "numa", VCPUs: 2, MemoryMB: 128, DiskGB: 1,
			Devices: []hypervisor.Device{{
				ID: device.PCI(pci.Address{Bus: 0x81, Slot: 1}), Request: "1ddf3318-e49d-41c6-9346-93d8aac10432",
				Provider: "7cbfb2c3-cd0e-5f9d-9358-c1acc4d4610a",
			}},
			Cells: []hypervisor.GuestCell{{
				VCPUs: []int{0, 1}, MemoryMB: 128, Node: 1, CPUs: map[int]int{0: 5, 1: 6}, Emulator: []int{7},
			}},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
	now, err := New(t.TempDir(), hypervisor.Capacity{})
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range got {
		if err := now.write(g, ""); err != nil {
			t.Fatal(err)
		}
		old, err := os.ReadFile(filepath.Join(source, g.ID+".json"))
		if err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(now.path(g.ID)); err != nil || !bytes.Equal(text, old) {
			t.Errorf("%s is written as\n%s\nbefore as\n%s%v", g.Name, text, old, err)
		}
	}
}

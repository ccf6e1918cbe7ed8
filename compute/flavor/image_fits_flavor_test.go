package flavor_test

import (
	"strings"
	"testing"

	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/fault"
)

func TestFlavorFitsImage(t *testing.T) {
	for _, c := range []struct {
		name     string
		disk     int
		image    flavor.Image
		wantText string // empty: it fits
	}{
		{"no requirements", 1, flavor.Image{}, ""},
		{"exactly the required sizes", 1, flavor.Image{MinRAM: 512, MinDisk: 1, Size: 1 << 30}, ""},
		{"too little memory", 1, flavor.Image{MinRAM: 513}, "Flavor's memory is too small for requested image"},
		{"an image larger than the disk", 1, flavor.Image{Size: 1<<30 + 1},
			"Flavor disk is 1073741824 bytes, image is 1073741825 bytes"},
		{"too small a disk", 1, flavor.Image{MinDisk: 2}, "minimum size is 2147483648 bytes"},
		{"a root disk as large as the image", 0, flavor.Image{Size: 1 << 40, MinDisk: 100}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := flavor.Fits(flavor.Flavor{Name: "f", MemoryMB: 512, DiskGB: c.disk}, c.image)
			if (err == nil) != (c.wantText == "") ||
				err != nil && (!fault.Is(err, fault.Invalid) || !strings.Contains(fault.TextOf(err), c.wantText)) {
				t.Errorf("got %v, want %q", err, c.wantText)
			}
		})
	}
}

package libvirt

import (
	"fmt"
	"strings"

	"github.com/openberth/berth/agent/imagecache"
)

// remark returns what operators must know about the host: that CPUs are emulated, and which images are downloaded.
// Progress is in steps of ten percent, so that the report of the host seldom changes.
func remark(kvm bool, downloads []imagecache.Download) string {
	var all []string
	if !kvm {
		all = append(all, emulated)
	}
	for _, d := range downloads {
		progress := "of unknown size"
		if d.Size > 0 {
			progress = fmt.Sprintf("%d %% of %d MiB", d.Bytes*10/d.Size*10, (d.Size+1<<20-1)>>20)
		}
		all = append(all, fmt.Sprintf("the image %s is being downloaded: %s", d.Image, progress))
	}
	return strings.Join(all, "; ")
}

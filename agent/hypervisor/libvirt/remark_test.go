package libvirt

import (
	"testing"

	"github.com/openberth/berth/agent/imagecache"
)

// TestProgress checks the sentences of copies in progress.
func TestProgress(t *testing.T) {
	for _, c := range []struct {
		download imagecache.Download
		want     string
	}{
		{imagecache.Download{Image: "a", Bytes: 499 << 20, Size: 1000 << 20},
			"the image a is being downloaded: 400 of 1000 MiB"},
		{imagecache.Download{Image: "b", Bytes: 5}, "the image b is being downloaded: of unknown size"},
		{imagecache.Download{Image: "c", Bytes: 5 << 20, Size: 10 << 20, Upload: true},
			"a disk is being uploaded as the image c: 5 of 10 MiB"},
	} {
		if got := progress([]imagecache.Download{c.download}); len(got) != 1 ||
			got[0].Text != c.want || got[0].Subject != c.download.Image {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

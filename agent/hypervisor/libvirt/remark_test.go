package libvirt

import (
	"testing"

	"github.com/openberth/berth/agent/imagecache"
)

func TestRemark(t *testing.T) {
	downloads := []imagecache.Download{{Image: "a", Bytes: 499 << 20, Size: 1000 << 20}, {Image: "b", Bytes: 5}}
	for _, c := range []struct {
		kvm       bool
		paused    []string
		downloads []imagecache.Download
		want      string
	}{
		{true, nil, nil, ""},
		{false, nil, nil, emulated},
		{true, nil, downloads,
			"the image a is being downloaded: 400 of 1000 MiB; the image b is being downloaded: of unknown size"},
		{false, []string{"x is paused"}, downloads[:1],
			emulated + "; x is paused; the image a is being downloaded: 400 of 1000 MiB"},
	} {
		if got := remark(c.kvm, c.paused, c.downloads); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

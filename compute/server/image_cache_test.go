package server

import (
	"testing"

	"github.com/openberth/berth/api/host"
)

// TestSignsOfLifeWithImageCache checks that the size of the copies of images in the last sign of life of the admitted
// agent is kept.
func TestSignsOfLifeWithImageCache(t *testing.T) {
	h, ctx := start(t), t.Context()
	agents := h.conductor.Conductor.Agents
	r := report("host1")
	if err := h.hosts.PutReport(ctx, r); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		instance string
		sent     *host.ImageCache
		refused  bool
		want     host.ImageCache
		known    bool
	}{
		{"a", nil, false, host.ImageCache{}, false},
		{"a", &host.ImageCache{Bytes: 7, Limit: 9}, false, host.ImageCache{Bytes: 7, Limit: 9}, true},
		{"another", &host.ImageCache{Bytes: 1}, true, host.ImageCache{Bytes: 7, Limit: 9}, true},
		{"a", &host.ImageCache{Bytes: -1}, true, host.ImageCache{Bytes: 7, Limit: 9}, true},
		{"a", &host.ImageCache{Limit: -1}, true, host.ImageCache{Bytes: 7, Limit: 9}, true},
		{"a", &host.ImageCache{Bytes: 1 << 60}, false, host.ImageCache{Bytes: 1 << 60}, true},
		{"a", nil, false, host.ImageCache{}, false},
	} {
		err := h.hosts.PutAlive(ctx, "host1", host.Alive{Instance: c.instance, Start: r.Start, ImageCache: c.sent})
		if (err != nil) != c.refused {
			t.Errorf("%s sends %+v: %v", c.instance, c.sent, err)
		}
		if got, known := agents.ImageCache("host1"); got != c.want || known != c.known {
			t.Errorf("%s sends %+v: %+v %v", c.instance, c.sent, got, known)
		}
	}
	if _, known := agents.ImageCache("unknown"); known {
		t.Error("the copies of an unknown host are known")
	}
}

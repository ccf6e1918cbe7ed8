package loop

import (
	"sync/atomic"
	"testing"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/api/host"
)

// cachingImages is a hypervisor with copies of images.
type cachingImages struct {
	hypervisor.Hypervisor
	size atomic.Pointer[hypervisor.ImageCache] // nil: not known
}

func (c *cachingImages) ImageCache() (size hypervisor.ImageCache, known bool) {
	if s := c.size.Load(); s != nil {
		return *s, true
	}
	return size, false
}

// TestSignsOfLifeHaveImageCache checks that signs of life have the size of the copies of images as it is known then.
func TestSignsOfLifeHaveImageCache(t *testing.T) {
	scenario(t, "known, changed and not known", func(t *testing.T, w *testHost) {
		h := &cachingImages{Hypervisor: w.options.Hypervisor}
		w.options.Hypervisor = h
		_, stop := w.startReported()
		for _, want := range []*hypervisor.ImageCache{{Bytes: 7, Limit: 9}, {Bytes: 8}, nil} {
			h.size.Store(want)
			before := w.compute.count(&w.compute.signs)
			w.until("a sign of life", func() bool { return w.compute.count(&w.compute.signs) > before+1 })
			w.compute.mu.Lock()
			got := w.compute.alive.ImageCache
			w.compute.mu.Unlock()
			if (got == nil) != (want == nil) || got != nil && *got != host.ImageCache(*want) {
				t.Errorf("%+v, want %+v", got, want)
			}
		}
		must(t, stop())
	})
}

package imagecache

import (
	"context"
	"io"
	"reflect"
	"testing"
	"testing/synctest"
)

// piped is an image service whose data arrive through a pipe.
type piped struct {
	*service
	from *io.PipeReader
}

func (p piped) Download(context.Context, string, int64) (io.ReadCloser, int64, error) {
	return p.from, 0, nil
}

// TestDownloads shows a download with what has been received, until it ends.
func TestDownloads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := io.Pipe()
		s := newService("data")
		c := newCache(t, piped{s, from})
		result := make(chan error, 1)
		go func() {
			_, err := c.Get(t.Context(), id)
			result <- err
		}()
		if _, err := to.Write(s.data[:1000]); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got, want := c.Downloads(), []Download{{id, 1000, int64(len(s.data)), false}}; !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
		if _, err := to.Write(s.data[1000:]); err != nil {
			t.Fatal(err)
		}
		to.Close()
		if err := <-result; err != nil {
			t.Error(err)
		}
		if got := c.Downloads(); len(got) != 0 {
			t.Errorf("after its end: %+v", got)
		}
	})
}

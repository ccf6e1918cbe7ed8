package rpc

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/libvirtd"
)

// TestDownload reads a file with holes through a real libvirtd, from its beginning and from an offset. Holes arrive as
// holes, and a reader that is slow loses nothing.
func TestDownload(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	dir := daemon.GuestDir(t)
	path := filepath.Join(dir, "disk")
	const size = 64 << 20
	want := make([]byte, size)
	copy(want, bytes.Repeat([]byte("first"), 1<<20))
	copy(want[40<<20:], bytes.Repeat([]byte("second"), 1<<20))
	f, err := os.Create(path)
	must(t, err)
	for _, from := range []int{0, 40 << 20} {
		_, err = f.WriteAt(want[from:from+6<<20], int64(from))
		must(t, err)
	}
	must(t, errors.Join(f.Truncate(size), f.Close()))
	c := StorageOf(dial(t, daemon))
	if _, err := c.Volume(t.Context(), path); !fault.Is(err, fault.NotFound) {
		t.Errorf("a volume without a pool: %v", err)
	}
	var pool Pool
	for range 2 {
		pool, err = c.CreatePool(t.Context(), "berth-test", dir)
		must(t, err)
	}
	v, err := c.Volume(t.Context(), path)
	must(t, err)
	state, err := c.VolumeState(t.Context(), v)
	if err != nil || state.Size != size || state.Changed == "" {
		t.Errorf("state %+v %v", state, err)
	}
	for _, offset := range []int64{0, 3, 20 << 20, 45<<20 + 1, size} {
		got, data := readPieces(t, StorageOf(dial(t, daemon)), v, offset)
		if !bytes.Equal(got, want[offset:]) {
			t.Errorf("from %d: %d bytes are not those of the file", offset, len(got))
		}
		if data > 13<<20 {
			t.Errorf("from %d: %d bytes of data were sent; the file has 12 MiB", offset, data)
		}
	}
	must(t, c.DestroyPool(t.Context(), pool))
	if n, err := c.Pools(t.Context()); n != 0 || err != nil {
		t.Errorf("%d pools: %v", n, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// readPieces downloads a volume, and returns its content and the number of bytes that were sent as data.
func readPieces(t *testing.T, c Storage, v Volume, offset int64) (content []byte, data int) {
	t.Helper()
	s, err := c.Download(t.Context(), v, offset)
	must(t, err)
	for {
		piece, err := s.Next()
		if errors.Is(err, io.EOF) {
			return content, data
		}
		must(t, err)
		content = append(content, piece.Data...)
		content = append(content, make([]byte, piece.Hole)...)
		data += len(piece.Data)
	}
}

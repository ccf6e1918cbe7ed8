package store

import (
	"bytes"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/uuid"

	"github.com/openberth/berth/diskimage"
)

// broken is a connection that has ended.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("the connection has ended") }

// The zeros of an image take no space, also when its upload is interrupted among them and continued.
func TestZerosTakeNoSpace(t *testing.T) {
	const size, first = 24 << 20, 9<<20 + 123
	data := make([]byte, size)
	copy(data[4<<20:], "something")
	sum := sha512.Sum512(data)
	dir := t.TempDir()
	s := open(t, dir)
	i, err := s.Create(Image{ID: uuid.NewString(), DiskFormat: diskimage.Raw, ContainerFormat: "bare"}, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	interrupted := io.MultiReader(bytes.NewReader(data[:first]), broken{})
	if _, err := s.Upload(i.ID, Upload{Data: interrupted, Total: size, Limits: Limits{Size: size}}); err == nil {
		t.Fatal("an interrupted upload is complete")
	}
	if n, err := s.Received(i.ID); err != nil || n != first {
		t.Errorf("received %d, %v", n, err)
	}
	rest := Upload{Data: bytes.NewReader(data[first:]), From: first, Total: size, Limits: Limits{Size: size}}
	i, err = s.Upload(i.ID, rest)
	if err != nil || i.Size != size || i.SHA512 != hex.EncodeToString(sum[:]) {
		t.Fatalf("%+v, %v", i, err)
	}
	path := filepath.Join(dir, i.ID+dataSuffix)
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	status, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if used := status.Sys().(*syscall.Stat_t).Blocks * 512; used > 1<<20 {
		t.Errorf("%d bytes are used", used)
	}
}

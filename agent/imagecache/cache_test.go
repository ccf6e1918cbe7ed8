package imagecache

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/diskimage"
	"github.com/openberth/berth/fault"
)

const id = "1b2c5d0e-55f2-4f5c-8b0e-7d1f0c8f1a2b"

// service is an image service with one image.
type service struct {
	mu        sync.Mutex
	meta      image.Image
	data      []byte
	breakAt   int   // the next download ends with an error after this number of bytes; 0: it does not
	noRanges  bool  // downloads always begin at 0
	downloads []int // the first byte of each download
}

func (s *service) Image(_ context.Context, wanted string) (image.Image, error) {
	if wanted != s.meta.ID {
		return image.Image{}, fault.New(fault.NotFound, "nothing")
	}
	return s.meta, nil
}

func (s *service) Download(_ context.Context, _ string, offset int64) (io.ReadCloser, int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.downloads = append(s.downloads, int(offset))
	if s.noRanges {
		offset = 0
	}
	var body io.Reader = bytes.NewReader(s.data[offset:])
	if s.breakAt > 0 {
		body = io.MultiReader(bytes.NewReader(s.data[offset:s.breakAt]), broken{})
		s.breakAt = 0
	}
	return io.NopCloser(body), offset, nil
}

// broken is a connection that has ended.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("the connection has ended") }

// newService returns a service with a raw image.
func newService(text string) *service {
	data := []byte(strings.Repeat(text, 1000))
	sum := sha512.Sum512(data)
	return &service{data: data, meta: image.Image{ID: id, Status: image.Active, Size: int64(len(data)),
		DiskFormat: "raw", HashAlgo: "sha512", HashValue: hex.EncodeToString(sum[:])}}
}

func newCache(t *testing.T, s Source) *Cache {
	return New(filepath.Join(t.TempDir(), "cache"), s, slog.New(slog.DiscardHandler))
}

// TestGet downloads an image once for many callers, and uses it without the service afterwards.
func TestGet(t *testing.T) {
	s := newService("data")
	c := newCache(t, s)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			base, err := c.Get(t.Context(), id)
			if err != nil || base.Format != diskimage.Raw || base.VirtualSize != int64(len(s.data)) {
				t.Errorf("%+v %v", base, err)
			}
			if data, err := os.ReadFile(base.Path); err != nil || !bytes.Equal(data, s.data) {
				t.Errorf("%d bytes: %v", len(data), err)
			}
		})
	}
	wg.Wait()
	if len(s.downloads) != 1 {
		t.Errorf("%d downloads", len(s.downloads))
	}
	if _, err := New(c.dir, nil, nil).Get(t.Context(), id); err != nil {
		t.Errorf("without a service: %v", err)
	}
}

// QEMU, which is another user, can read a copy with any mask of modes of the service.
func TestCopyIsReadable(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	c := newCache(t, newService("data"))
	base, err := c.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{c.dir: 0o711, base.Path: 0o644} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v %v, want %v", path, info.Mode(), err, want)
		}
	}
}

// TestInterruptedDownload continues a download where it ended, and begins again if the service cannot continue.
func TestInterruptedDownload(t *testing.T) {
	for name, noRanges := range map[string]bool{"continued": false, "again": true} {
		t.Run(name, func(t *testing.T) {
			s := newService("data")
			s.breakAt, s.noRanges = 1234, noRanges
			c := newCache(t, s)
			if _, err := c.Get(t.Context(), id); !fault.Is(err, fault.Unavailable) {
				t.Errorf("interrupted: %v", err)
			}
			base, err := c.Get(t.Context(), id)
			if err != nil || base.VirtualSize != int64(len(s.data)) {
				t.Errorf("%+v %v", base, err)
			}
			if len(s.downloads) != 2 || s.downloads[1] != 1234 {
				t.Errorf("downloads from %v", s.downloads)
			}
		})
	}
}

// TestRefusedImages checks the fault of each image that cannot be used, and that nothing of it remains.
func TestRefusedImages(t *testing.T) {
	for says, c := range map[string]struct {
		kind   fault.Kind
		change func(s *service)
	}{
		"sha512 checksum":      {fault.Unavailable, func(s *service) { s.data[5]++ }},
		"md5 checksum":         {fault.Unavailable, func(s *service) { s.meta.HashAlgo, s.meta.Checksum = "", "00" }},
		"4001 were received":   {fault.Unavailable, func(s *service) { s.data = append(s.data, "more than declared"...) }},
		"3999 were received":   {fault.Unavailable, func(s *service) { s.data = s.data[:3999] }},
		"its status is saving": {fault.Invalid, func(s *service) { s.meta.Status = "saving" }},
		"declared as qcow2":    {fault.Invalid, func(s *service) { s.meta.DiskFormat = "qcow2" }},
		`its format is "vmdk"`: {fault.Invalid, func(s *service) { s.meta.DiskFormat = "vmdk" }},
		"not exist any more":   {fault.NotFound, func(s *service) { s.meta.ID = "" }},
	} {
		s := newService("data")
		c.change(s)
		cache := newCache(t, s)
		_, err := cache.Get(t.Context(), id)
		if !fault.Is(err, c.kind) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", says, err)
		}
		if entries, _ := os.ReadDir(cache.dir); len(entries) > 0 {
			t.Errorf("%q: %v remains", says, entries)
		}
	}
	if _, err := newCache(t, nil).Get(t.Context(), id); !fault.Is(err, fault.Conflict) {
		t.Errorf("without a service: %v", err)
	}
	if _, err := newCache(t, newService("x")).Get(t.Context(), "../etc"); !fault.Is(err, fault.Invalid) {
		t.Errorf("a path: %v", err)
	}
}

// TestZerosTakeNoSpace downloads an image of zeros, interrupted once, into a file without blocks.
func TestZerosTakeNoSpace(t *testing.T) {
	s := newService("\x00\x00\x00\x00")
	s.data = append(make([]byte, 9<<20), "end"...)
	sum := sha512.Sum512(s.data)
	s.meta.Size, s.meta.HashValue, s.breakAt = int64(len(s.data)), hex.EncodeToString(sum[:]), 5<<20+1
	c := newCache(t, s)
	if _, err := c.Get(t.Context(), id); !fault.Is(err, fault.Unavailable) {
		t.Errorf("interrupted: %v", err)
	}
	base, err := c.Get(t.Context(), id)
	if err != nil || len(s.downloads) != 2 || s.downloads[1] != 5<<20+1 {
		t.Fatalf("%+v %v, downloads from %v", base, err, s.downloads)
	}
	status, err := os.Stat(base.Path)
	if err != nil {
		t.Fatal(err)
	}
	if used := status.Sys().(*syscall.Stat_t).Blocks * 512; used > 1<<20 {
		t.Errorf("%d bytes are used", used)
	}
}

// TestRestore downloads a copy that has vanished again, and never puts other data in its place.
func TestRestore(t *testing.T) {
	s := newService("data")
	c := newCache(t, s)
	base, err := c.Get(t.Context(), id)
	if err != nil || base.SHA512 != s.meta.HashValue {
		t.Fatalf("%+v %v", base, err)
	}
	if again, err := c.Get(t.Context(), id); err != nil || again != base {
		t.Errorf("the same copy: %+v %v", again, err)
	}
	if err := c.Restore(t.Context(), base.Path, ""); err != nil || len(s.downloads) != 1 {
		t.Errorf("a copy that exists: %v, %d downloads", err, len(s.downloads))
	}
	otherSource := func(c *Cache) { c.source = newService("DATA") }
	without := func(c *Cache) { c.source = nil }
	reformatted := func(*Cache) { s.meta.DiskFormat = "qcow2" }
	unsummed := func(c *Cache) {
		s := newService("DATA")
		s.meta.HashAlgo, s.meta.HashValue = "", ""
		c.source = s
	}
	for name, v := range map[string]struct {
		keepSum bool   // the sum beside the copy remains
		sum     string // that the disk has recorded
		change  func(c *Cache)
		kind    fault.Kind // empty: no fault
		says    string
	}{
		"by the service's sum":   {},
		"by the cache's sum":     {keepSum: true},
		"by the disk's sum":      {sum: base.SHA512},
		"without a sum":          {sum: base.SHA512, change: func(*Cache) { s.meta.HashAlgo, s.meta.HashValue = "", "" }},
		"other data, disk":       {sum: base.SHA512, change: otherSource, kind: fault.Conflict, says: "other data"},
		"other data, cache":      {keepSum: true, change: otherSource, kind: fault.Conflict, says: "other data"},
		"other data, no sum":     {sum: base.SHA512, change: unsummed, kind: fault.Conflict, says: "other data"},
		"another format":         {change: reformatted, kind: fault.Conflict, says: "the format"},
		"deleted in the service": {change: func(*Cache) { s.meta.ID = "" }, kind: fault.NotFound, says: "from a backup"},
		"no service":             {change: without, kind: fault.Conflict, says: "configure [glance]"},
	} {
		s.meta = newService("data").meta
		c := New(c.dir, s, c.log)
		if err := os.Remove(base.Path); err != nil {
			t.Fatal(err)
		}
		if !v.keepSum {
			_ = os.Remove(c.path(id, sumSuffix))
		}
		if v.change != nil {
			v.change(c)
		}
		err := c.Restore(t.Context(), base.Path, v.sum)
		if v.kind == "" && err != nil || v.kind != "" && (!fault.Is(err, v.kind) || !strings.Contains(err.Error(), v.says)) {
			t.Errorf("%s: %v", name, err)
		}
		data, err := os.ReadFile(base.Path)
		if exists := err == nil; exists != (v.kind == "") || exists && !bytes.Equal(data, s.data) {
			t.Errorf("%s: %d bytes, %v", name, len(data), err)
		}
		if _, err := os.Stat(c.path(id, unfinished)); err == nil {
			t.Errorf("%s: an unfinished download remains", name)
		}
		if err := os.WriteFile(base.Path, s.data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := c.record(id, base.SHA512); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"/elsewhere/" + id + ".raw", c.path(id, "img"), c.path("x", "raw")} {
		if err := c.Restore(t.Context(), path, ""); err != nil {
			t.Errorf("%s, which is not of the cache: %v", path, err)
		}
	}
}

// TestGetOfAVanishedCopy never replaces a copy that disks may have been made from by other data.
func TestGetOfAVanishedCopy(t *testing.T) {
	for _, summed := range []bool{true, false} {
		c := newCache(t, newService("data"))
		base, err := c.Get(t.Context(), id)
		if err != nil || os.Remove(base.Path) != nil {
			t.Fatal(err)
		}
		other := newService("DATA")
		if !summed {
			other.meta.HashAlgo, other.meta.HashValue = "", ""
		}
		c.source = other
		_, err = c.Get(t.Context(), id)
		if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "remove "+c.dir) {
			t.Errorf("other data: %v", err)
		}
		if _, err := os.Stat(base.Path); err == nil {
			t.Error("the copy has other data")
		}
		c.source = newService("data")
		if again, err := c.Get(t.Context(), id); err != nil || again != base {
			t.Errorf("the same data: %+v %v", again, err)
		}
	}
}

// TestSharedDirectory lets two hosts download an image into one directory at the same time: they have one copy, which
// stays if one of them gets other data.
func TestSharedDirectory(t *testing.T) {
	s := newService("data")
	a := newCache(t, s).Share("a")
	b := New(a.dir, s, a.log).Share("b")
	s.breakAt = 1234
	if _, err := a.Get(t.Context(), id); !fault.Is(err, fault.Unavailable) {
		t.Errorf("interrupted: %v", err)
	}
	base, err := b.Get(t.Context(), id)
	if err != nil || base.SHA512 != s.meta.HashValue {
		t.Fatalf("%+v %v", base, err)
	}
	if again, err := a.fetch(t.Context(), s.meta, ""); err != nil || again != base { // it had begun before
		t.Errorf("the download of the other host: %+v %v", again, err)
	}
	other := newService("DATA")
	a.source = other
	if _, err := a.fetch(t.Context(), other.meta, ""); !fault.Is(err, fault.Conflict) {
		t.Errorf("other data: %v", err)
	}
	if data, err := os.ReadFile(base.Path); err != nil || !bytes.Equal(data, s.data) {
		t.Errorf("the copy has %d bytes: %v", len(data), err)
	}
	entries, err := os.ReadDir(a.dir)
	if err != nil || len(entries) != 2 { // the copy and its sum
		t.Errorf("the directory has %v: %v", entries, err)
	}
}

// TestMissingSum computes the sum of a copy that has none.
func TestMissingSum(t *testing.T) {
	s := newService("data")
	c := newCache(t, s)
	for range 2 {
		if base, err := c.Get(t.Context(), id); err != nil || base.SHA512 != s.meta.HashValue {
			t.Errorf("%+v %v", base, err)
		}
		_ = os.Remove(c.path(id, sumSuffix))
	}
}

// TestMD5 accepts an image of which the service has only the MD5 checksum, and one of which it has none.
func TestMD5(t *testing.T) {
	for _, known := range []bool{true, false} {
		s := newService("data")
		sum := md5.Sum(s.data)
		s.meta.HashAlgo, s.meta.Checksum = "", ""
		if known {
			s.meta.Checksum = hex.EncodeToString(sum[:])
		}
		if _, err := newCache(t, s).Get(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
}

package imagecache

import (
	"bytes"
	"context"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/fault"
)

// target is an image service that receives one image.
type target struct {
	service
	continues bool  // it can continue an upload
	breakAt   int64 // the first upload ends there; 0: it does not
	refuse    error // of uploads
	change    bool  // it changes what it receives
	froms     []int64
}

func (s *target) Received(context.Context, string) (int64, error) {
	if !s.continues {
		return 0, nil
	}
	return int64(len(s.data)), nil
}

func (s *target) Upload(_ context.Context, _ string, data io.Reader, from, total int64) error {
	s.froms = append(s.froms, from)
	if s.refuse != nil {
		return s.refuse
	}
	s.data = s.data[:from]
	if at := s.breakAt; at > 0 {
		s.breakAt = 0
		part, err := io.ReadAll(io.LimitReader(data, at))
		s.data = append(s.data, part...)
		return errors.Join(fault.New(fault.Unavailable, "the connection has ended"), err)
	}
	rest, err := io.ReadAll(data)
	if s.data = append(s.data, rest...); err != nil || int64(len(s.data)) != total {
		return fault.New(fault.Invalid, "%d of %d bytes: %v", len(s.data), total, err)
	}
	if s.change {
		s.data[0]++
	}
	sum := sha512.Sum512(s.data)
	s.meta.Status, s.meta.Size = image.Active, total
	s.meta.HashAlgo, s.meta.HashValue = "sha512", hex.EncodeToString(sum[:])
	return nil
}

// uploading returns a cache, an image service with an image without data, and a file.
func uploading(t *testing.T) (*Cache, *target, string) {
	s := &target{service: service{meta: image.Image{ID: id, Status: "queued"}}, continues: true}
	file := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(file, []byte(strings.Repeat("data", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	return newCache(t, s), s, file
}

// TestUpload uploads a file; a repeated call changes nothing.
func TestUpload(t *testing.T) {
	c, s, file := uploading(t)
	for range 2 {
		got, err := c.Upload(t.Context(), id, file, false)
		if err != nil || got.Bytes != 4000 || got.SHA512 != s.meta.HashValue {
			t.Errorf("%+v %v", got, err)
		}
	}
	if data, _ := os.ReadFile(file); !bytes.Equal(data, s.data) || len(s.froms) != 1 {
		t.Errorf("%d bytes by %d uploads", len(s.data), len(s.froms))
	}
}

// TestInterruptedUpload continues where the image service was interrupted, if it can and the file is the same.
func TestInterruptedUpload(t *testing.T) {
	for name, c := range map[string]struct {
		continues, resume bool
		from              int64
	}{"continued": {true, true, 1234}, "a service that cannot": {false, true, 0}, "another file": {true, false, 0}} {
		cache, s, file := uploading(t)
		s.breakAt, s.continues = 1234, c.continues
		if _, err := cache.Upload(t.Context(), id, file, c.resume); !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: interrupted: %v", name, err)
		}
		s.meta.Status = "saving" // of a service that was killed
		if _, err := cache.Upload(t.Context(), id, file, c.resume); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(s.froms) != 2 || s.froms[1] != c.from {
			t.Errorf("%s: uploads from %v", name, s.froms)
		}
	}
}

// TestRefusedUploads checks the faults of uploads: only Unavailable lets the agent try again.
func TestRefusedUploads(t *testing.T) {
	refuse := func(kind fault.Kind, text string) func(s *target) {
		return func(s *target) { s.refuse = fault.New(kind, "%s", text) }
	}
	for says, c := range map[string]struct {
		kind   fault.Kind
		change func(s *target)
	}{
		"deleted meanwhile":    {fault.NotFound, func(s *target) { s.meta.ID = "" }},
		"has the status":       {fault.Conflict, func(s *target) { s.meta.Status = "deactivated" }},
		"sha512 checksum":      {fault.Conflict, func(s *target) { s.change = true }},
		"and the disk has":     {fault.Conflict, func(s *target) { s.meta.Status, s.meta.Size = image.Active, 5 }},
		"too large":            {fault.Invalid, refuse(fault.Invalid, "too large")},
		"does not answer":      {fault.Unavailable, refuse(fault.Unavailable, "it does not answer")},
		"not accept the data ": {fault.Unavailable, refuse(fault.Conflict, "another upload")},
	} {
		cache, s, file := uploading(t)
		c.change(s)
		_, err := cache.Upload(t.Context(), id, file, true)
		if !fault.Is(err, c.kind) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", says, err)
		}
	}
	cache, s, file := uploading(t)
	s.refuse = fault.New(fault.Conflict, "another upload")
	var err error
	for range conflicts {
		_, err = cache.Upload(t.Context(), id, file, true)
	}
	if !fault.Is(err, fault.Conflict) {
		t.Errorf("a service that never accepts the data: %v", err)
	}
	if why := newCache(t, newService("x")).NoUploads(); !strings.Contains(why, "no image service") {
		t.Errorf("a service without uploads: %q", why)
	}
}

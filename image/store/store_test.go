package store

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/openberth/berth/diskimage"
	"github.com/openberth/berth/fault"
)

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// small are limits of images with few bytes.
var small = Limits{Size: 100}

// stored creates an image with data.
func stored(t *testing.T, s *Store) Image {
	t.Helper()
	i, err := s.Create(Image{ID: uuid.NewString(), Owner: "p", DiskFormat: diskimage.Raw, ContainerFormat: "bare"},
		Limits{})
	if err == nil {
		i, err = s.Upload(i.ID, Upload{Data: strings.NewReader("data"), Total: 4, Limits: small})
	}
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// What a crash leaves at each step is removed or completed at the next start, and no image is lost.
func TestFilesAfterACrash(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	kept := stored(t, s)
	saving, err := s.Create(Image{ID: uuid.NewString(), DiskFormat: diskimage.Raw, ContainerFormat: "bare"}, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	// The process is killed during the upload.
	if _, err := s.beginUpload(saving.ID, func(i *Image) error { return i.begin(Saving) }); err != nil {
		t.Fatal(err)
	}
	foreign := uuid.NewString()
	for name, text := range map[string]string{saving.ID + partialSuffix: "da", foreign + dataSuffix: "x",
		foreign + partialSuffix: "x", foreign + recordSuffix + newSuffix: "{", "notes.txt": "not Berth's"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s = open(t, dir)
	if i, err := s.Get(kept.ID); err != nil || i.Status != Active || i.SHA512 != kept.SHA512 {
		t.Errorf("%+v, %v", i, err)
	}
	if n, err := s.Received(saving.ID); err != nil || n != 2 {
		t.Errorf("received %d, %v", n, err)
	}
	rest := Upload{Data: strings.NewReader("ta"), From: 2, Total: 4, Limits: small}
	if i, err := s.Upload(saving.ID, rest); err != nil || i.SHA512 != kept.SHA512 {
		t.Errorf("%+v, %v", i, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 5 { // two records, two images, notes.txt
		t.Errorf("%v, %v", entries, err)
	}
}

// A full or missing directory is reported, the image stays without data, and the next upload works.
func TestDirectoryTakesNoWrites(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "images")
	s := open(t, dir)
	i, err := s.Create(Image{ID: uuid.NewString(), DiskFormat: diskimage.Raw, ContainerFormat: "bare"}, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir, dir+"-away"); err != nil {
		t.Fatal(err)
	}
	upload := Upload{Data: strings.NewReader("data"), Total: 4, Limits: small}
	if _, err := s.Upload(i.ID, upload); !fault.Is(err, fault.Unavailable) {
		t.Errorf("upload: %v", err)
	}
	if err := s.Check(); !fault.Is(err, fault.Unavailable) {
		t.Errorf("check: %v", err)
	}
	if err := os.Rename(dir+"-away", dir); err != nil {
		t.Fatal(err)
	}
	upload.Data = strings.NewReader("data")
	if i, err = s.Upload(i.ID, upload); err != nil || i.Status != Active {
		t.Errorf("%+v, %v", i, err)
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

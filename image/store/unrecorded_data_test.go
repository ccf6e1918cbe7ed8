package store

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/uuid"

	"github.com/openberth/berth/diskimage"
	"github.com/openberth/berth/fault"
)

// refuseRecord makes the record of an image unwritable, until the returned function is called.
func refuseRecord(t *testing.T, s *Store, id string) (accept func()) {
	t.Helper()
	path := s.path(id, recordSuffix+newSuffix)
	must(t, os.MkdirAll(filepath.Join(path, "x"), 0o700))
	return func() { must(t, os.RemoveAll(path)) }
}

// refusing is a reader of data that refuses the record of an image when it is read.
type refusing struct {
	io.Reader
	refuse func()
}

func (r refusing) Read(p []byte) (int, error) {
	r.refuse()
	return r.Reader.Read(p)
}

// The service is killed after it has given staged or uploaded data their name, and before the record says so, or the
// record cannot be written: the data stay what was received, and the image gets them later.
func TestDataWithoutRecord(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	create := func() string {
		i, err := s.Create(Image{ID: uuid.NewString(), DiskFormat: diskimage.Raw, ContainerFormat: "bare"}, Limits{})
		must(t, err)
		return i.ID
	}
	data := func() Upload { return Upload{Data: strings.NewReader("data"), Total: 4, Limits: small} }

	staged := create()
	_, err := s.Stage(staged, data())
	must(t, err)
	_, err = s.BeginImport(staged, true, Import{})
	must(t, err)
	must(t, os.Rename(s.path(staged, partialSuffix), s.path(staged, dataSuffix))) // killed here
	s = open(t, dir)
	_, err = s.BeginImport(staged, true, Import{})
	must(t, err)
	accept := refuseRecord(t, s, staged)
	if _, err := s.ImportStaged(staged, nil); !fault.Is(err, fault.Unavailable) {
		t.Errorf("an import without its record: %v", err)
	}
	if i, err := s.Get(staged); err != nil || i.Status != Uploading || i.Import.Status != ImportFailed {
		t.Errorf("%+v %v", i, err)
	}
	accept()
	_, err = s.BeginImport(staged, true, Import{})
	must(t, err)
	if i, err := s.ImportStaged(staged, nil); err != nil || i.Status != Active || i.Size != 4 {
		t.Errorf("%+v %v", i, err)
	}

	uploaded := create()
	u := data()
	u.Data = refusing{u.Data, func() { accept = refuseRecord(t, s, uploaded) }}
	if _, err := s.Upload(uploaded, u); !fault.Is(err, fault.Unavailable) {
		t.Errorf("an upload without its record: %v", err)
	}
	accept()
	for range 2 {
		if n, err := s.Received(uploaded); err != nil || n != 4 {
			t.Errorf("received are %d bytes, %v", n, err)
		}
		s = open(t, dir)
	}
	if i, err := s.Upload(uploaded, data()); err != nil || i.Status != Active {
		t.Errorf("%+v %v", i, err)
	}
	for _, id := range []string{staged, uploaded} {
		file, err := open(t, dir).Data(id)
		must(t, err)
		must(t, file.Close())
	}
}

// An upload that fills the disk is removed, so that other images can be changed and uploaded.
func TestUploadThatFillsTheDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatalf("mounting a tmpfs failed; run this test as root: %v", err)
	}
	t.Cleanup(func() { must(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	s := open(t, dir)
	i, err := s.Create(Image{ID: uuid.NewString(), DiskFormat: diskimage.Raw, ContainerFormat: "bare"}, Limits{})
	must(t, err)
	large := bytes.NewReader(bytes.Repeat([]byte("x"), 2<<20))
	upload := Upload{Data: large, Total: -1, Limits: Limits{Size: 4 << 20}}
	if _, err := s.Upload(i.ID, upload); !fault.Is(err, fault.Unavailable) {
		t.Errorf("larger than the disk: %v", err)
	}
	if again, err := s.Get(i.ID); err != nil || again.Status != Queued {
		t.Errorf("%+v %v", again, err)
	}
	stored(t, s)
}

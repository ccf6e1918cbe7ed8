package store

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
)

// A record or the data of an image is damaged: the others are served, the log names the file, nothing of the image is
// removed or replaced, and it is served again when the file is restored.
func TestDamagedFiles(t *testing.T) {
	overwrite := func(text string) func(path string) error {
		return func(path string) error { return os.WriteFile(path, []byte(text), 0o600) }
	}
	replaced := func(by func(path string) error) func(path string) error {
		return func(path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return by(path)
		}
	}
	directory := replaced(func(path string) error { return os.Mkdir(path, 0o700) })
	unreadable := replaced(func(path string) error { return os.Symlink(path, path) })
	for _, c := range []struct {
		name, suffix string
		damage       func(path string) error
	}{
		{"empty record", recordSuffix, overwrite("")},
		{"garbage", recordSuffix, overwrite("\x00{")},
		{"record of another image", recordSuffix, overwrite("{}")},
		{"directory", recordSuffix, directory},
		{"unreadable", recordSuffix, unreadable},
		{"empty data", dataSuffix, overwrite("")},
		{"missing data", dataSuffix, os.Remove},
		{"directory as data", dataSuffix, directory},
		{"unreadable data", dataSuffix, unreadable},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			whole, lost := stored(t, s), stored(t, s)
			file := filepath.Join(dir, lost.ID+c.suffix)
			text, err := os.ReadFile(file)
			must(t, err)
			must(t, c.damage(file))
			var log bytes.Buffer
			s, err = Open(dir, slog.New(slog.NewTextHandler(&log, nil)))
			if err != nil || !strings.Contains(log.String(), file) {
				t.Fatalf("%v, logged %s", err, &log)
			}
			if list := s.List(); len(list) != 1 || list[0].ID != whole.ID {
				t.Errorf("listed are %+v", list)
			}
			if _, err := s.Get(lost.ID); !fault.Is(err, fault.Unavailable) || strings.Contains(err.Error(), dir) {
				t.Errorf("get: %v", err)
			}
			if _, err := s.Create(Image{ID: lost.ID}, Limits{}); !fault.Is(err, fault.Conflict) {
				t.Errorf("create: %v", err)
			}
			if err := s.Delete(lost.ID); !fault.Is(err, fault.Unavailable) {
				t.Errorf("delete: %v", err)
			}
			must(t, os.RemoveAll(file))
			must(t, os.WriteFile(file, text, 0o600))
			if i, err := s.Get(lost.ID); err != nil || i.SHA512 != lost.SHA512 || len(s.List()) != 2 {
				t.Errorf("restored: %+v %v", i, err)
			}
			data, err := s.Data(lost.ID)
			must(t, err)
			must(t, data.Close())
		})
	}
}

// A record of another version ends the start: the program that has written it must be used.
func TestRecordOfAnotherVersion(t *testing.T) {
	dir := t.TempDir()
	i := stored(t, open(t, dir))
	must(t, os.WriteFile(filepath.Join(dir, i.ID+recordSuffix), []byte(`{"version": 9, "id": "`+i.ID+`"}`), 0o600))
	_, err := Open(dir, slog.New(slog.DiscardHandler))
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), i.ID+recordSuffix+" has version 9") {
		t.Error(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

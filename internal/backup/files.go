package backup

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
)

// describe returns size and sum of a file.
func describe(path string) (f File, err error) {
	file, err := os.Open(path)
	if err != nil {
		return f, err
	}
	defer file.Close()
	sum := sha256.New()
	if f.Size, err = io.Copy(sum, file); err != nil {
		return f, err
	}
	f.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return f, nil
}

// describeAll describes the files of a part of a backup, which is a file or a directory.
func describeAll(dir, part string) (map[string]File, error) {
	files := map[string]File{}
	return files, filepath.WalkDir(filepath.Join(dir, part), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err == nil {
			files[name], err = describe(path)
		}
		return err
	})
}

// check compares the files of a part with the manifest. The fault is Invalid.
func check(dir string, s Stored) error {
	for name, want := range s.Files {
		if !filepath.IsLocal(name) {
			return fault.New(fault.Invalid, "the backup names a file outside of it: %q; use another backup", name)
		}
		got, err := describe(filepath.Join(dir, name))
		if err != nil {
			return fault.New(fault.Invalid, "the backup lacks a file of %s: %w; use another backup", s.Name, err)
		}
		if got != want {
			return fault.New(fault.Invalid, "%s is not what was saved: %d bytes, not %d, or another content; use another "+
				"backup", filepath.Join(dir, name), got.Size, want.Size)
		}
	}
	return nil
}

// copyFile copies a file to a new one with the same mode, and syncs it.
func copyFile(from, to string) (err error) {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	info, err := source.Stat()
	if err != nil {
		return err
	}
	file, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(file, source)
	return errors.Join(err, file.Sync(), file.Close())
}

// copyTree copies the files of a directory that want selects to a new directory, and syncs it. A file that vanishes
// meanwhile is left out.
func copyTree(from, to string, want func(name string) bool) error {
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !entry.Type().IsRegular() || !want(entry.Name()) {
			continue
		}
		err := copyFile(filepath.Join(from, entry.Name()), filepath.Join(to, entry.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return datafile.Sync(to)
}

// copyImageFiles copies the records of images and the marks of deleted ones, and then the data that belongs to the
// records. The record of an image whose data is not there is left out: the image was deleted meanwhile.
func copyImageFiles(from, to string) error {
	small := func(name string) bool { return isImageFile(name) && !strings.HasSuffix(name, ".data") }
	if err := copyTree(from, to, small); err != nil {
		return err
	}
	records, err := os.ReadDir(to)
	if err != nil {
		return err
	}
	for _, record := range records {
		if !strings.HasSuffix(record.Name(), ".json") {
			continue
		}
		var image struct{ Status string }
		text, err := os.ReadFile(filepath.Join(to, record.Name()))
		if err == nil {
			err = json.Unmarshal(text, &image)
		}
		if err != nil {
			return err
		}
		if image.Status != "active" && image.Status != "deactivated" {
			continue
		}
		data := strings.TrimSuffix(record.Name(), ".json") + ".data"
		err = copyFile(filepath.Join(from, data), filepath.Join(to, data))
		if errors.Is(err, fs.ErrNotExist) {
			err = os.Remove(filepath.Join(to, record.Name()))
		}
		if err != nil {
			return err
		}
	}
	return datafile.Sync(to)
}

// isMountPoint reports whether a file system begins at a directory.
func isMountPoint(path string) bool {
	var own, parent syscall.Stat_t
	err := errors.Join(syscall.Stat(path, &own), syscall.Stat(filepath.Dir(path), &parent))
	return err == nil && own.Dev != parent.Dev
}

// isImageFile reports whether a file of the directory of images belongs to a backup: records, data, and the marks of
// deleted images. What is only received in part is not.
func isImageFile(name string) bool {
	return slices.Contains([]string{".json", ".data", ".deleted"}, filepath.Ext(name))
}

// User is a process that has a file open.
type User struct {
	PID  int
	Name string
}

// Users returns the processes that have a file open, except this one. Those of other users are found by root only.
func Users(path string) (list []User) {
	want, err := os.Stat(path)
	if err != nil {
		return nil
	}
	open, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return nil
	}
	seen := map[int]bool{os.Getpid(): true}
	for _, link := range open {
		info, err := os.Stat(link)
		if err != nil || !os.SameFile(info, want) {
			continue
		}
		pid, err := strconv.Atoi(strings.Split(link, "/")[2])
		if err != nil || seen[pid] {
			continue
		}
		seen[pid] = true
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if err != nil {
			continue // it has ended
		}
		list = append(list, User{pid, strings.TrimSpace(string(name))})
	}
	return list
}

// users returns the processes that have a file open, as "4711 (berth)".
func users(path string) (list []string) {
	for _, u := range Users(path) {
		list = append(list, fmt.Sprintf("%d (%s)", u.PID, u.Name))
	}
	return list
}

package upgrade

import (
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/backup"
)

// freeBytes returns what the file system of an existing directory has left for this user.
func freeBytes(dir string) (int64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, fault.New(fault.Unavailable, "cannot read the free space of %s: %w; name a directory that exists", dir,
			err)
	}
	return int64(s.Bavail) * s.Bsize, nil
}

// sizeOf returns the bytes of the files of a part that is a file or a directory, with the log of a database.
func sizeOf(p backup.Part) (bytes int64) {
	for _, path := range []string{p.Path, p.Path + "-wal"} {
		_ = filepath.WalkDir(path, func(_ string, entry fs.DirEntry, err error) error {
			if err != nil {
				return nil // it does not exist, or was deleted meanwhile
			}
			if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
				bytes += info.Size()
			}
			return nil
		})
	}
	return bytes
}

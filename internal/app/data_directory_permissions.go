package app

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/join"
)

// Entries of a data directory that only one user needs. (sqldb protects the databases.)
const (
	ComputeLock = "compute.lock" // the files that Lock locks
	NetworkLock = "network.lock"
	ImageLock   = "image.lock" // in the directory of images
	AgentDir    = "agent"      // the agent's journal and guests
)

// ProtectData removes the permissions of other users from a data directory and from these entries of it, recursively.
// It logs each changed path. It leaves the directory itself unchanged, with a warning, if the directory has entries
// that are not Berth's or belongs to another user. It creates nothing. It returns fault.Forbidden if an entry belongs
// to another user.
func ProtectData(dir string, log *slog.Logger, names ...string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fault.New(fault.Unavailable, "cannot read the data directory: %w", err)
	}
	if err := protectDataDir(dir, entries, log); err != nil {
		return err
	}
	for _, entry := range entries {
		if !slices.Contains(names, entry.Name()) {
			continue
		}
		if err := filepath.WalkDir(filepath.Join(dir, entry.Name()), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.Type()&fs.ModeSymlink != 0 {
				return fault.Wrap(fault.Unavailable, err)
			}
			return restrictAccess(path, log)
		}); err != nil {
			return err
		}
	}
	return nil
}

// protectDataDir restricts the data directory if it has only entries of Berth.
func protectDataDir(dir string, entries []fs.DirEntry, log *slog.Logger) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fault.New(fault.Unavailable, "cannot read the mode of the data directory: %w", err)
	}
	if info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	if !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return !isBerthEntry(e.Name()) }) &&
		restrictAccess(dir, log) == nil {
		return nil
	}
	log.Warn("data directory is open to other users", "path", dir, "mode", info.Mode().Perm().String())
	return nil
}

// isBerthEntry reports whether Berth creates entries of this name in a data directory.
func isBerthEntry(name string) bool {
	return name == join.File || name == join.LockFile || name == AgentDir || name == ImageDir || name == ComputeLock ||
		name == NetworkLock || strings.HasPrefix(name, placementFile) ||
		strings.HasPrefix(name, computeFile) || strings.HasPrefix(name, networkFile)
}

func restrictAccess(path string, log *slog.Logger) error {
	changed, err := datafile.Narrow(path)
	if changed {
		logRestricted(log, path)
	}
	return err
}

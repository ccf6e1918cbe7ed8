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
)

// The parts of a data directory that only one user needs. (sqldb takes care of the databases.)
const (
	LockFile = "compute.lock" // of Lock
	AgentDir = "agent"        // the agent's journal and guests
)

// ProtectData takes the rights of other users from a data directory and from these parts of it, with all that is in
// them. It logs each path that it changes. The directory itself is left alone, with a warning, when other things than
// Berth's are in it or another user owns it. What does not exist is not made. fault.Forbidden: a part belongs to
// another user.
func ProtectData(dir string, log *slog.Logger, parts ...string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fault.New(fault.Unavailable, "app.ProtectData", "cannot read the data directory: %w", err)
	}
	if err := protectDataDir(dir, entries, log); err != nil {
		return err
	}
	for _, entry := range entries {
		if !slices.Contains(parts, entry.Name()) {
			continue
		}
		if err := filepath.WalkDir(filepath.Join(dir, entry.Name()), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.Type()&fs.ModeSymlink != 0 {
				return fault.Wrap(fault.Unavailable, "app.ProtectData", err)
			}
			return restrictAccess(path, log)
		}); err != nil {
			return err
		}
	}
	return nil
}

// protectDir narrows the data directory if it is Berth's alone.
func protectDataDir(dir string, entries []fs.DirEntry, log *slog.Logger) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fault.New(fault.Unavailable, "app.ProtectData", "cannot look at the data directory: %w", err)
	}
	if info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	if !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return !isBerthEntry(e.Name()) }) && restrictAccess(dir, log) == nil {
		return nil
	}
	log.Warn("data directory is open to other users", "path", dir, "mode", info.Mode().Perm().String())
	return nil
}

// isOurs reports whether Berth makes entries of this name in a data directory.
func isBerthEntry(name string) bool {
	return name == AgentDir || name == LockFile ||
		strings.HasPrefix(name, placementFile) || strings.HasPrefix(name, computeFile)
}

func restrictAccess(path string, log *slog.Logger) error {
	changed, err := datafile.Narrow(path)
	if changed {
		logRestricted(log, path)
	}
	return err
}

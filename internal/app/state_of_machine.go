package app

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/backup"
	"github.com/openberth/berth/internal/settings"
	"github.com/openberth/berth/sqldb"
)

// StateOf returns where the services and the agent of this machine keep their durable state, by their configuration and
// their data directory, whether it exists or not.
func StateOf(s settings.Settings, dir string) ([]backup.Part, error) {
	parts := []backup.Part{{Name: backup.Journal, Path: filepath.Join(dir, AgentDir, "journal")},
		{Name: backup.Images, Path: cmp.Or(s.ImageStore.Dir, filepath.Join(dir, ImageDir))}}
	for _, d := range []struct {
		name      backup.Name
		url, file string
	}{{backup.Placement, s.PlacementDB, placementFile}, {backup.Compute, s.ComputeDB, computeFile},
		{backup.Network, s.NetworkDB, networkFile}} {
		at, err := sqldb.Locate(cmp.Or(d.url, sqliteURL(dir, d.file)))
		if err != nil {
			return nil, err
		}
		if at.Dialect == sqldb.SQLite && at.File == "" {
			return nil, fault.New(fault.Invalid, "the database of %s is in memory: nothing of it can be saved", d.name)
		}
		parts = append(parts, backup.Part{Name: d.name, Path: at.File, Database: at})
	}
	return parts, nil
}

// SavedStateOf returns the parts of StateOf that exist: a file, a directory, or a database on a server. The fault is
// Invalid if there are none, and Unavailable if this user cannot see whether a part exists.
func SavedStateOf(s settings.Settings, dir string) ([]backup.Part, error) {
	all, err := StateOf(s, dir)
	if err != nil {
		return nil, err
	}
	var parts []backup.Part
	for _, p := range all {
		if p.Path != "" {
			_, err := os.Stat(p.Path)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, fault.New(fault.Unavailable, "cannot see whether there is a %s: %w; run the command as the user "+
					"of the service, or as root", p.Name, err)
			}
		}
		parts = append(parts, p)
	}
	if len(parts) == 0 {
		return nil, fault.New(fault.Invalid, "there is no state of Berth in %s, and the configuration names no database; "+
			"name the directory of the services with --data-dir, and their file with --config-file", dir)
	}
	return parts, nil
}

package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/sqldb"
)

// Action is what a restore does with one part.
type Action struct {
	Part   Part
	stored Stored
	dir    string // the backup
	source string // the file or directory in it
}

// Plan compares a backup with the parts of this machine, and returns what a restore puts back: the parts with these
// names, or all. It checks every file of them, and changes nothing. The fault is Invalid if a part is not in the backup
// or not on this machine, if its databases are of another kind, or if the backup is damaged.
func Plan(dir string, here []Part, only []Name) (actions []Action, err error) {
	m, err := Read(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range only {
		if !slices.ContainsFunc(m.Parts, func(s Stored) bool { return s.Name == name }) {
			return nil, fault.New(fault.Invalid, "the backup %s has no %q; it has %s", dir, name, m.names())
		}
	}
	for _, s := range m.Parts {
		if len(only) > 0 && !slices.Contains(only, s.Name) {
			continue
		}
		at := slices.IndexFunc(here, func(p Part) bool { return p.Name == s.Name })
		if at < 0 {
			return nil, fault.New(fault.Invalid, "this machine has no %s by its configuration; restore the others with --only",
				s.Name)
		}
		a := Action{Part: here[at], stored: s, dir: dir}
		if a.Part.isDatabase() && a.Part.Database.Dialect != s.Kind {
			return nil, fault.New(fault.Invalid, "the backup of %s is of %s, and the configuration names %s; name a database "+
				"of %s in the option connection", s.Name, s.Kind, a.Part.Database.Dialect, s.Kind)
		}
		if a.source, err = sourceOf(dir, s); err != nil {
			return nil, err
		}
		if err := check(dir, s); err != nil {
			return nil, err
		}
		actions = append(actions, a)
	}
	return actions, nil
}

// sourceOf returns the path of a part in a backup.
func sourceOf(dir string, s Stored) (string, error) {
	switch {
	case s.Name == Journal, s.Name == Images:
		return filepath.Join(dir, string(s.Name)), nil
	case s.Kind == sqldb.SQLite:
		return filepath.Join(dir, string(s.Name)+".db"), nil
	case s.Kind == sqldb.MySQL, s.Kind == sqldb.PostgreSQL:
		return filepath.Join(dir, string(s.Name)+".sql"), nil
	}
	return "", fault.New(fault.Invalid, "the backup has an unknown part %q; use the program that made it", s.Name)
}

// String returns what the action does, for people.
func (a Action) String() string {
	return fmt.Sprintf("%s: replace %s by what was in %s (%d bytes)", a.stored.Name, a.Part.where(), a.stored.From,
		a.stored.size())
}

// Apply puts back what Plan has returned, and keeps what was there in a directory beside it, whose name it prints. All
// copies are made before the first one takes its place. The fault is Conflict if a process uses a file; then nothing is
// changed. After an interruption the same command completes it.
func Apply(ctx context.Context, actions []Action, out io.Writer) error {
	for _, a := range actions {
		if err := a.checkUnused(ctx); err != nil {
			return err
		}
	}
	for _, a := range actions {
		err := check(a.dir, a.stored)
		if err == nil {
			err = a.stage()
		}
		if err != nil {
			err = fault.New(fault.Unavailable, "cannot copy %s: %w; nothing has been changed", a.stored.Name, err)
			return errors.Join(err, unstage(actions))
		}
	}
	aside := "before-restore-" + now()
	actions = slices.Clone(actions) // databases of servers first: more can fail there
	slices.SortStableFunc(actions, func(a, b Action) int { return cmp.Compare(len(a.Part.Path), len(b.Part.Path)) })
	for _, a := range actions {
		kept, err := a.replace(ctx, aside)
		if err != nil {
			return fault.New(fault.Unavailable, "cannot restore %s: %w; what was there is in %s if that exists; run the "+
				"command again", a.stored.Name, err, kept)
		}
		fmt.Fprintf(out, "restored %s; what was there is in %s\n", a.stored.Name, kept)
	}
	return nil
}

// checkUnused returns fault.Conflict if a process has a file of the part open, or is connected to its database, and
// fault.Invalid for a directory that cannot be replaced.
func (a Action) checkUnused(ctx context.Context) error {
	p := a.Part
	if p.Path == "" {
		n, err := sqldb.Sessions(ctx, p.Database)
		if err == nil && n > 0 {
			err = fault.New(fault.Conflict, "the %s has %d other connections; stop the services that use it first",
				p.where(), n)
		}
		if err == nil {
			err = a.checkTables(ctx)
		}
		return err
	}
	var who []string
	for _, path := range []string{p.Path, p.Path + "-wal", p.Path + "-shm", filepath.Join(p.Path, "image.lock")} {
		who = append(who, users(path)...)
	}
	slices.Sort(who)
	if len(who) > 0 {
		return fault.New(fault.Conflict, "%s is in use by process %s; stop the service first", p.where(),
			strings.Join(slices.Compact(who), ", "))
	}
	info, err := os.Lstat(p.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(filepath.Dir(p.Path)); err != nil {
			return fault.New(fault.Invalid, "cannot restore %s: %w; create the directory with the owner of the service "+
				"first", p.where(), err)
		}
		return nil
	case err != nil:
		return fault.Wrap(fault.Unavailable, err)
	case info.Mode()&fs.ModeSymlink != 0:
		return fault.New(fault.Invalid, "%s is a symbolic link; name its target in the configuration", p.where())
	case isMountPoint(p.Path):
		return fault.New(fault.Invalid, "%s is a mount point, which cannot be replaced; name a directory below it, or copy "+
			"the files of the backup yourself", p.where())
	}
	return nil
}

// checkTables returns fault.Conflict if the database of a server has tables that the backup lacks. They would remain,
// and the service would find a schema of which only a part is that of the backup.
func (a Action) checkTables(ctx context.Context) error {
	here, err := sqldb.Tables(ctx, a.Part.Database)
	if err != nil {
		return err
	}
	here = slices.DeleteFunc(here, func(table string) bool { return slices.Contains(a.stored.Tables, table) })
	if len(here) > 0 {
		return fault.New(fault.Conflict, "the %s has tables that the backup does not have, and a restore would keep them: "+
			"%s; a newer Berth or another program has made them; name an empty database in the option connection, or save "+
			"these tables and drop them, then run the command again", a.Part.where(), strings.Join(here, ", "))
	}
	return nil
}

// unstage removes the copies that have not taken their places.
func unstage(actions []Action) (err error) {
	for _, a := range actions {
		if a.Part.Path != "" {
			err = errors.Join(err, os.RemoveAll(a.Part.Path+sqldb.Restoring))
		}
	}
	return err
}

// stage copies a part beside its place, with the owner of its directory.
func (a Action) stage() error {
	if a.Part.Path == "" {
		return nil
	}
	to := a.Part.Path + sqldb.Restoring
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	var err error
	if a.Part.Name == Images {
		err = copyTree(a.source, to, isImageFile)
	} else {
		err = copyFile(a.source, to)
	}
	if err != nil {
		return err
	}
	return filepath.WalkDir(to, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, datafile.GiveAs(path, filepath.Dir(to)))
	})
}

// replace moves what is there aside, and the copy to its place. It returns where the former state is.
func (a Action) replace(ctx context.Context, aside string) (kept string, err error) {
	if a.Part.Path == "" {
		return a.replaceInServer(ctx, aside)
	}
	dir := filepath.Dir(a.Part.Path)
	kept = filepath.Join(dir, aside)
	if err := os.Mkdir(kept, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return kept, err
	}
	if err := datafile.GiveAs(kept, dir); err != nil {
		return kept, err
	}
	for _, path := range []string{a.Part.Path, a.Part.Path + "-wal", a.Part.Path + "-shm"} {
		err := os.Rename(path, filepath.Join(kept, filepath.Base(path)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return kept, err
		}
	}
	if err := os.Rename(a.Part.Path+sqldb.Restoring, a.Part.Path); err != nil {
		return kept, err
	}
	return kept, datafile.Sync(dir)
}

// replaceInServer saves what a database has, and runs the saved statements in it. They delete and create its tables.
func (a Action) replaceInServer(ctx context.Context, aside string) (kept string, err error) {
	kept = string(a.Part.Name) + "-" + aside + ".sql"
	if kept, err = filepath.Abs(kept); err != nil {
		return kept, err
	}
	if err := dump(ctx, a.Part.Database, kept); err != nil {
		return kept, err
	}
	return kept, load(ctx, a.Part.Database, a.source)
}

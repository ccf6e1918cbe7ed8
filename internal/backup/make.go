package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/sqldb"
)

// partial is the end of the name of a backup that is being made.
const partial = ".partial"

// Make copies parts into a new directory while they are used, and prints each. The order is fixed: journals first,
// because an agent does not follow a compute that is older than its journal; then databases, those in files as all of
// them are at one moment; images last. The fault is Conflict if the directory exists.
func Make(ctx context.Context, dir string, parts []Part, m Manifest, out io.Writer) (err error) {
	if _, err := os.Lstat(dir); err == nil {
		return fault.New(fault.Conflict, "%s exists; name a directory that does not, such as one with today's date", dir)
	}
	work := dir + partial
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return fault.Wrap(fault.Unavailable, err)
	}
	if err := os.Mkdir(work, 0o700); errors.Is(err, os.ErrExist) {
		return fault.New(fault.Conflict, "%s exists: another backup is being made, or was interrupted; remove it when no "+
			"`berth backup` runs", work)
	} else if err != nil {
		return fault.Wrap(fault.Unavailable, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(work))
		}
	}()
	m.Version = formatVersion
	for _, copied := range []func(context.Context, string, []Part) ([]Stored, error){copyJournal, copyFiles, copyServers,
		copyImages} {
		list, err := copied(ctx, work, parts)
		if err != nil {
			return err
		}
		for _, s := range list {
			fmt.Fprintf(out, "saved %s: %s, %d bytes\n", s.Name, s.From, s.size())
		}
		m.Parts = append(m.Parts, list...)
	}
	return finish(work, dir, m)
}

// finish writes the manifest, and gives the backup its name.
func finish(work, dir string, m Manifest) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err == nil {
		err = datafile.Replace(filepath.Join(work, manifestFile), append(text, '\n'))
	}
	if err == nil {
		err = datafile.Sync(work)
	}
	if err == nil {
		err = os.Rename(work, dir)
	}
	if err == nil {
		err = datafile.Sync(filepath.Dir(dir))
	}
	if err != nil {
		return fault.New(fault.Unavailable, "cannot finish the backup %s: %w", dir, err)
	}
	return nil
}

// stored returns the description of a part whose copy has a name.
func stored(dir string, p Part, name string) (Stored, error) {
	files, err := describeAll(dir, name)
	if err != nil {
		return Stored{}, fault.New(fault.Unavailable, "cannot read the copy of %s: %w", p.Name, err)
	}
	s := Stored{Name: p.Name, From: p.where(), Files: files}
	if p.isDatabase() {
		s.Kind = p.Database.Dialect
	}
	return s, nil
}

// copyJournal copies the journal of the agent. Each of its lines has a sum, and an incomplete last one is ignored.
func copyJournal(_ context.Context, dir string, parts []Part) (list []Stored, err error) {
	for _, p := range parts {
		if p.Name != Journal {
			continue
		}
		if err := copyFile(p.Path, filepath.Join(dir, "journal")); err != nil {
			return nil, fault.New(fault.Unavailable, "cannot copy the journal: %w", err)
		}
		s, err := stored(dir, p, "journal")
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// copyFiles copies the databases in files.
func copyFiles(ctx context.Context, dir string, parts []Part) (list []Stored, err error) {
	var copies []sqldb.FileCopy
	for _, p := range parts {
		if p.isDatabase() && p.Path != "" {
			copies = append(copies, sqldb.FileCopy{From: p.Path, To: filepath.Join(dir, string(p.Name)+".db")})
		}
	}
	if len(copies) == 0 {
		return nil, nil
	}
	if err := sqldb.CopyFiles(ctx, copies); err != nil {
		return nil, err
	}
	for _, p := range parts {
		if p.isDatabase() && p.Path != "" {
			s, err := stored(dir, p, string(p.Name)+".db")
			if err != nil {
				return nil, err
			}
			list = append(list, s)
		}
	}
	return list, nil
}

// copyServers saves the databases of servers.
func copyServers(ctx context.Context, dir string, parts []Part) (list []Stored, err error) {
	for _, p := range parts {
		if !p.isDatabase() || p.Path != "" {
			continue
		}
		name := string(p.Name) + ".sql"
		tables, err := sqldb.Tables(ctx, p.Database)
		if err == nil {
			err = dump(ctx, p.Database, filepath.Join(dir, name))
		}
		if err != nil {
			return nil, fault.New(fault.KindOf(err), "cannot save the %s: %w", p.where(), err)
		}
		s, err := stored(dir, p, name)
		if err != nil {
			return nil, err
		}
		s.Tables = tables
		list = append(list, s)
	}
	return list, nil
}

// copyImages copies the images.
func copyImages(_ context.Context, dir string, parts []Part) (list []Stored, err error) {
	for _, p := range parts {
		if p.Name != Images {
			continue
		}
		if err := copyImageFiles(p.Path, filepath.Join(dir, "images")); err != nil {
			return nil, fault.New(fault.Unavailable, "cannot copy the images: %w", err)
		}
		s, err := stored(dir, p, "images")
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// now returns a time for names of directories.
func now() string { return time.Now().UTC().Format("20060102T150405.000") }

package upgrade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/fault"
	imagestore "github.com/openberth/berth/image/store"
	"github.com/openberth/berth/internal/backup"
	"github.com/openberth/berth/sqldb"
)

// Options are what a check needs.
type Options struct {
	Program   string        // version of this program
	Parts     []backup.Part // that exist
	Warnings  []string      // about the options of the configuration files
	WorkDir   string        // directory for copies of databases, which exists
	BackupDir string        // directory of backups, which exists
}

// check is one check in progress.
type check struct {
	options Options
	report  Report
	dir     string // with the copies
}

// Check checks all parts. What prevents an upgrade is in Problems; err is an interruption, or a directory that cannot
// be used. The copies are removed at the end; a killed process leaves them, in a directory berth-upgrade-check-….
func Check(ctx context.Context, o Options) (r Report, err error) {
	c := &check{options: o, report: NewReport(o.Program)}
	c.report.Options, c.report.Space.Dir = append(c.report.Options, o.Warnings...), o.BackupDir
	space := &c.report.Space
	if space.Free, err = freeBytes(o.BackupDir); err != nil {
		return c.report, err
	}
	if c.dir, err = os.MkdirTemp(o.WorkDir, "berth-upgrade-check-"); err != nil {
		return c.report, fault.New(fault.Unavailable, "cannot make a directory for copies of the databases: %w; name "+
			"another one with --work-dir", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(c.dir)) }()
	for _, p := range o.Parts {
		c.part(ctx, p)
		if ctx.Err() != nil {
			return c.report, context.Cause(ctx)
		}
	}
	if space.Needed > space.Free {
		c.problem("a backup takes about %d bytes, and %s has %d free; free space there, or name another directory with "+
			"--backup-dir", space.Needed, space.Dir, space.Free)
	}
	if os.Geteuid() != 0 {
		c.note("processes of other users were not looked for, which only root can do")
	}
	c.report.Ready = len(c.report.Problems) == 0
	return c.report, nil
}

func (c *check) problem(format string, args ...any) {
	c.report.Problems = append(c.report.Problems, fmt.Sprintf(format, args...))
}

func (c *check) note(format string, args ...any) {
	c.report.Notes = append(c.report.Notes, fmt.Sprintf(format, args...))
}

// part checks one part, and adds the result to the report.
func (c *check) part(ctx context.Context, p backup.Part) {
	out := Part{Name: p.Name, From: p.Where(), Unreadable: []string{}}
	c.report.Processes = append(c.report.Processes, processesOf(p)...)
	c.report.Space.Needed += sizeOf(p)
	var err error
	switch p.Name {
	case backup.Journal:
		var state journal.State
		if state, err = journal.Read(filepath.Dir(p.Path)); err == nil {
			out.Records = len(state.Servers())
		}
	case backup.Images:
		var bad []error
		bad, out.Records, err = imagestore.Unreadable(p.Path)
		out.Records -= len(bad)
		out.add(bad)
	default:
		err = c.database(ctx, p, &out)
	}
	if err != nil {
		out.Error = fault.TextOf(err)
		c.problem("%s: %s: %s", p.Name, out.From, out.Error)
	}
	if n := len(out.Unreadable); n > 0 {
		c.problem("%s: records that cannot be read: %d", p.Name, n)
	}
	c.report.Parts = append(c.report.Parts, out)
}

// database checks a database: a copy of that in a file, and that of a server where it is.
func (c *check) database(ctx context.Context, p backup.Part, out *Part) error {
	if p.Path != "" {
		return c.copied(ctx, p, out)
	}
	sessions, err := sqldb.Sessions(ctx, p.Database) // before the check has connections of its own
	if err != nil {
		return err
	}
	if sessions > 0 {
		c.note("%s: %s has %d other connections, whose versions are not known; stop all services that use it before this "+
			"program starts on it", p.Name, p.Where(), sessions)
	}
	due, err := database(ctx, p.Database.URL, false, out)
	if err != nil {
		return err
	}
	if due > 0 {
		c.note("%s: %d migrations are due and were not tried, because that needs a copy; to try them, restore a backup into "+
			"another database and check that one", p.Name, due)
	}
	db, err := sqldb.Open(ctx, p.Database.URL)
	if err != nil {
		return err
	}
	size, err := sqldb.Size(ctx, db)
	c.report.Space.Needed += size
	return errors.Join(err, db.Close())
}

// copied copies a database in a file, and checks the copy. Migrations may write each record once more.
func (c *check) copied(ctx context.Context, p backup.Part, out *Part) (err error) {
	free, err := freeBytes(c.dir)
	if err != nil {
		return err
	}
	if size := sizeOf(p); 3*size > free {
		return fault.New(fault.Unavailable, "a check of its copy may take %d bytes, and %s has %d free; name another "+
			"directory with --work-dir", 3*size, c.options.WorkDir, free)
	}
	readable, err := os.Open(p.Path)
	if err == nil {
		err = readable.Close() // before SQLite opens it: closing a file releases all locks of the process on it
	}
	if err != nil {
		return fault.New(fault.Unavailable, "cannot read it: %w; run the check as the user of the service, or as root", err)
	}
	file := filepath.Join(c.dir, string(p.Name)+".db")
	if err := sqldb.CopyFiles(ctx, []sqldb.FileCopy{{From: p.Path, To: file}}); err != nil {
		return err
	}
	_, err = database(ctx, "sqlite:///"+file, true, out)
	for _, path := range []string{file, file + "-wal", file + "-shm"} {
		if e := os.Remove(path); e != nil && !errors.Is(e, os.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

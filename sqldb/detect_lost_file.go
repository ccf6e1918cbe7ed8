package sqldb

import (
	"errors"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
)

// guardInterval is how often the files of an open SQLite database are checked, in addition to the checks around each
// write batch.
const guardInterval = time.Second

// guard checks that the files of an open SQLite database are still at their paths: the database, the write-ahead log
// (-wal) and the index of the log that all processes share (-shm). Without its log the database lacks the latest
// writes; a second log or index lets two processes write at once. The first failed check is final. A nil guard, of a
// database without files, never fails.
type guard struct {
	path           string        // of the database
	log            string        // path of its log
	opening        datafile.File // the database before it was opened
	main, wal, shm datafile.File
	home           datafile.File // main by the path that its links lead to: wal and shm are beside it

	once  sync.Once
	found chan struct{} // closed when a file is lost, after first is set
	first datafile.File // the file
	how   datafile.State

	stop  sync.Once
	quit  chan struct{} // closed by close
	ended sync.WaitGroup

	done  chan struct{} // closed when loss is set
	loss  error         // what happened, and what to do
	notes []string      // more information for the operator; only rescue uses it
}

// newGuard returns a guard for a database that is about to be opened. It checks nothing before learn.
func newGuard(path string) *guard {
	g := &guard{path: path, found: make(chan struct{}), quit: make(chan struct{}), done: make(chan struct{})}
	g.opening, _ = datafile.At(path) // if there is no such file, SQLite reports it
	return g
}

// learn records the files of the database. Its writing connection is open and has read, so all of them exist; if the
// file system does not support a log, only the database's own file does.
func (g *guard) learn() error {
	real, err := filepath.EvalSymlinks(g.path) // SQLite creates the other files in the directory of the link's target
	if err != nil {
		return fault.New(fault.Unavailable, "cannot find the database's file: %w", err)
	}
	g.log = real + "-wal"
	for _, f := range []struct {
		path string
		file *datafile.File
	}{{g.path, &g.main}, {real, &g.home}, {g.log, &g.wal}, {real + "-shm", &g.shm}} {
		*f.file, err = datafile.At(f.path)
		if err != nil && (f.file == &g.main || f.file == &g.home || !errors.Is(err, fs.ErrNotExist)) {
			return err
		}
	}
	if state, err := g.opening.State(); err != nil || state != datafile.Same {
		return fault.New(fault.Unavailable, "the database file %s was %s while Berth opened it; start "+
			"Berth again", g.path, state)
	}
	return nil
}

// watch checks the files every interval until close. When a file is lost it calls settle once and stores its error as
// the loss.
func (g *guard) watch(interval time.Duration, settle func() error) {
	g.ended.Go(func() {
		ticks := time.NewTicker(interval)
		defer ticks.Stop()
		for {
			select {
			case <-g.quit:
				return
			case <-g.found:
				g.loss = settle()
				close(g.done)
				return
			case <-ticks.C:
				_ = g.check() // a loss closes found; a failed check is repeated
			}
		}
	})
}

// close ends watch.
func (g *guard) close() {
	if g != nil {
		g.stop.Do(func() { close(g.quit) })
		g.ended.Wait()
	}
}

// check returns an error if a file is lost or cannot be checked. The error is Unavailable and contains no path,
// because clients may see it.
func (g *guard) check() error {
	if g == nil {
		return nil
	}
	if err := g.lost(); err != nil {
		return err
	}
	for _, f := range []datafile.File{g.main, g.wal, g.shm} {
		state, err := f.State()
		if err != nil {
			return err
		}
		if state != datafile.Same {
			g.once.Do(func() {
				g.first, g.how = f, state
				close(g.found)
			})
			return g.lost()
		}
	}
	return nil
}

// lost returns an error after a check has found a file lost. It does not access the files.
func (g *guard) lost() error {
	if g == nil {
		return nil
	}
	select {
	case <-g.found:
		return fault.New(fault.Unavailable, "the database's file was deleted, moved or replaced; the "+
			"service stops, its log contains what to do")
	default:
		return nil
	}
}

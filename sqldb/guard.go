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

// guardInterval is how often the files of an open SQLite database are checked, beside the checks around each write
// batch.
const guardInterval = time.Second

// guard checks that the files of an open SQLite database are still at their paths: the database itself and, beside it,
// the write-ahead log (-wal) and the index of the log that all processes share (-shm). Without its log the database
// lacks what was written last; a second log or index lets two processes write at once. The first check that fails is
// final. A nil guard, of a database without files, never fails.
type guard struct {
	path           string        // of the database
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
	notes []string      // what else the operator must know; used by rescue alone
}

// newGuard returns a guard for a database that is about to be opened. It guards nothing before learn.
func newGuard(path string) *guard {
	g := &guard{path: path, found: make(chan struct{}), quit: make(chan struct{}), done: make(chan struct{})}
	g.opening, _ = datafile.At(path) // when there is no such file, SQLite says so
	return g
}

// learn notes which files are the database's. Its writing connection is open and has read, so all of them are there;
// where the file system does not let SQLite have a log, there is only the database's own.
func (g *guard) learn() error {
	real, err := filepath.EvalSymlinks(g.path) // SQLite puts the other files beside the file that a link leads to
	if err != nil {
		return fault.New(fault.Unavailable, "sqldb.learn", "cannot find the database's file: %w", err)
	}
	for _, f := range []struct {
		path string
		file *datafile.File
	}{{g.path, &g.main}, {real, &g.home}, {real + "-wal", &g.wal}, {real + "-shm", &g.shm}} {
		*f.file, err = datafile.At(f.path)
		if err != nil && (f.file == &g.main || f.file == &g.home || !errors.Is(err, fs.ErrNotExist)) {
			return err
		}
	}
	if state, err := g.opening.State(); err != nil || state != datafile.Same {
		return fault.New(fault.Unavailable, "sqldb.learn", "the database file %s was %s while Berth opened it; start "+
			"Berth again", g.path, state)
	}
	return nil
}

// watch checks the files every interval until close. When a file is lost it calls settle once and keeps its error as
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
				_ = g.check() // a loss closes found; what cannot be checked now is checked again
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

// check returns an error when a file is lost or cannot be checked. The error is Unavailable and shows no path: clients
// may see it.
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

// lost returns an error once a check has found a file lost. It looks at no file.
func (g *guard) lost() error {
	if g == nil {
		return nil
	}
	select {
	case <-g.found:
		return fault.New(fault.Unavailable, "sqldb.guard", "the database's file was deleted, moved or replaced; the "+
			"service stops, its log says what to do")
	default:
		return nil
	}
}

package coexist

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/internal/bench"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/sqldb"
)

var (
	seeds    = flag.Int("coexist.seeds", 1, "how many seeds each race is run with")
	first    = flag.Uint64("coexist.seed", 1, "the first seed")
	claims   = flag.Int("coexist.claims", 20, "how many claims each server must have granted before a race ends")
	interval = flag.Duration("coexist.interval", 200*time.Millisecond, "[berth] index_refresh_interval")

	retries = flag.Int("coexist.retries", 1, "[placement] allocation_conflict_retry_count of the original on MariaDB. "+
		"With its default, 10, it oversubscribes, also alone")

	program string // the binary under test; set once by TestMain
)

// patience is how long anything may take that must happen: the machine may be busy.
const patience = 3 * time.Minute

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() { // every test that runs a server is skipped
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "berth-together-")
	if err != nil {
		log.Fatal(err)
	}
	if program, err = bench.Build(dir); err != nil {
		log.Fatal(err)
	}
	status := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		log.Fatal(err)
	}
	os.Exit(status)
}

// site is one database with all that serves it.
type site struct {
	t       *testing.T // what it starts lives as long as this test
	url     string
	db      *sqldb.DB // not through any server
	servers []*server // the original first, if there is one
}

// server is a Placement, of either kind.
type server struct {
	*bench.Process
	name     string
	original bool
}

// Three servers on one database, the original among them.
func TestTogether(t *testing.T) {
	for _, on := range []struct {
		name string
		open func(testing.TB, ...string) *databases.Server
	}{{"MariaDB", databases.MariaDB}, {"PostgreSQL", databases.PostgreSQL}} {
		t.Run(on.name, func(t *testing.T) {
			s := &site{t: t, url: on.open(t).Database(t)}
			s.startOriginal()
			s.connect()
			if !t.Run("hand-over", s.handsOver) {
				t.FailNow()
			}
			s.startBerth()
			s.startBerth()
			t.Run("sight", s.sees)
			t.Run("race", s.races)
		})
	}
}

// One after the other on an SQLite file, and by the book.
func TestHandOverOnSQLite(t *testing.T) {
	testenv.Need(t, "OpenStack's Placement")
	s := &site{t: t, url: databases.SQLite(t)}
	s.startOriginal()
	s.connect()
	t.Run("guide", s.guided)
	t.Run("hand-over", s.handsOver)
}

// Two Berths on one SQLite file.
func TestRaceOnSQLite(t *testing.T) {
	testenv.Long(t)
	s := &site{t: t, url: databases.SQLite(t)}
	s.startBerth()
	s.startBerth()
	s.connect()
	t.Run("sight", s.sees)
	t.Run("race", s.races)
}

// connect opens the database beside the servers, which have made its tables.
func (s *site) connect() {
	s.t.Helper()
	db, err := sqldb.Open(s.t.Context(), s.url)
	if err != nil {
		s.t.Fatal(err)
	}
	s.db = db
	s.t.Cleanup(func() {
		if err := db.Close(); err != nil {
			s.t.Error(err)
		}
	})
}

func (s *site) startOriginal() *server {
	s.t.Helper()
	var lines []string
	if strings.HasPrefix(s.url, "mysql") {
		lines = []string{"[placement]", fmt.Sprint("allocation_conflict_retry_count = ", *retries)}
	}
	p, err := bench.StartOriginal(s.t.TempDir(), s.url, lines...)
	return s.add(&server{p, "the original", true}, err)
}

func (s *site) startBerth() *server {
	s.t.Helper()
	p, err := bench.StartBerth(program, s.t.TempDir(), s.url, "[placement]", "randomize_allocation_candidates = true",
		"[berth]", fmt.Sprint("index_refresh_interval = ", interval.Seconds()))
	return s.add(&server{p, fmt.Sprint("Berth ", len(s.servers)), false}, err)
}

func (s *site) add(one *server, err error) *server {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
	s.servers = append(s.servers, one)
	s.t.Cleanup(func() { one.Stop() }) // again, when it was stopped before: then it says so, and that is all
	return one
}

// stop ends all servers, as their operator does.
func (s *site) stop(t *testing.T) {
	t.Helper()
	for _, one := range s.servers {
		if err := one.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	s.servers = nil
}

// read asks the database itself, at one moment.
func (s *site) read(t *testing.T, look func(ctx context.Context, tx *sqldb.Tx) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.db.Read(ctx, func(tx *sqldb.Tx) error { return look(ctx, tx) }); err != nil {
		t.Fatal(err)
	}
}

// rows reads all rows of a query as texts.
func rows(ctx context.Context, tx *sqldb.Tx, query string) (list [][]string, err error) {
	found, err := tx.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	columns, err := found.Columns()
	if err != nil {
		return nil, err
	}
	for found.Next() {
		cells, slots := make([]*string, len(columns)), make([]any, len(columns))
		for i := range cells {
			slots[i] = &cells[i]
		}
		if err := found.Scan(slots...); err != nil {
			return nil, err
		}
		row := make([]string, len(cells))
		for i, cell := range cells {
			if row[i] = "NULL"; cell != nil {
				row[i] = *cell
			}
		}
		list = append(list, row)
	}
	return list, errors.Join(found.Err(), found.Close())
}

// eventually asks until there is no error any more.
func eventually(t *testing.T, what string, ask func() error) {
	t.Helper()
	for last := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		err := ask()
		if err == nil {
			return
		}
		if time.Now().After(last) {
			t.Fatalf("it is not so that %s: %v", what, err)
		}
	}
}

package coexist

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/openberth/berth/internal/bench"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/sqldb"
)

// site is one database with its servers.
type site struct {
	t       *testing.T // its servers end with this test
	url     string
	db      *sqldb.DB // a direct connection
	servers []*server // OpenStack's Placement first, if it is started
}

// server is a process of Berth or of OpenStack's Placement.
type server struct {
	*bench.Process
	name     string
	original bool
}

// TestSharedDatabase runs OpenStack's Placement and two Berths on one database.
func TestSharedDatabase(t *testing.T) {
	for _, on := range []struct {
		name string
		open func(testing.TB, ...string) *databases.Server
	}{{"MariaDB", databases.MariaDB}, {"PostgreSQL", databases.PostgreSQL}} {
		t.Run(on.name, func(t *testing.T) {
			s := &site{t: t, url: on.open(t).Database(t)}
			s.startOriginal()
			s.connect()
			if !t.Run("hand-over", s.handOver) {
				t.FailNow()
			}
			s.startBerth()
			s.startBerth()
			t.Run("visibility", s.visibility)
			t.Run("race", s.runRaces)
		})
	}
}

// TestHandOverOnSQLite runs the servers one after the other on an SQLite file, and the commands of the guide.
func TestHandOverOnSQLite(t *testing.T) {
	testenv.Need(t, "OpenStack's Placement")
	s := &site{t: t, url: databases.SQLite(t)}
	s.startOriginal()
	s.connect()
	t.Run("guide", s.followGuide)
	t.Run("hand-over", s.handOver)
}

// TestRaceOnSQLite runs two Berths on one SQLite file.
func TestRaceOnSQLite(t *testing.T) {
	testenv.Long(t)
	s := &site{t: t, url: databases.SQLite(t)}
	s.startBerth()
	s.startBerth()
	s.connect()
	t.Run("visibility", s.visibility)
	t.Run("race", s.runRaces)
}

// connect opens the database. The servers have created its tables.
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
	return s.add(&server{p, "OpenStack's Placement", true}, err)
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
	s.t.Cleanup(func() { one.Stop() }) // an error means that it was stopped before
	return one
}

// stop ends all servers with SIGTERM.
func (s *site) stop(t *testing.T) {
	t.Helper()
	for _, one := range s.servers {
		if err := one.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	s.servers = nil
}

// read reads the database in one transaction.
func (s *site) read(t *testing.T, query func(ctx context.Context, tx *sqldb.Tx) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience)
	defer cancel()
	if err := s.db.Read(ctx, func(tx *sqldb.Tx) error { return query(ctx, tx) }); err != nil {
		t.Fatal(err)
	}
}

// rows returns all rows of a query as strings.
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

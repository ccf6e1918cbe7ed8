package store

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

// TestFirstStarts tests servers that start at the same time on an empty database of one database server.
func TestFirstStarts(t *testing.T) {
	databases.Each(t, func(t *testing.T, fresh func(testing.TB) string) {
		startTogether(t, func(t testing.TB) []string {
			url := fresh(t)
			return []string{url, url, url}
		})
	})
}

// TestUnfinishedTables checks that whileCreated waits for another process that creates the tables, at most for
// creationTimeout, and that its error contains the remedy.
func TestUnfinishedTables(t *testing.T) {
	s := openStore(t, sqliteURL(t))
	ok(t,
		s.db.Write(t.Context(),
			func(tx *sqldb.Tx) error { _, err := tx.Exec(t.Context(), "DELETE FROM alembic_version"); return err }))
	_, unfinished := s.Version(t.Context())
	synctest.Test(t, func(t *testing.T) {
		calls, began := 0, time.Now()
		refused(t, whileCreated(t.Context(), func() error { calls++; return unfinished }), fault.Unavailable, "",
			"if there is no such process, create the database again")
		if took := time.Since(began); took < creationTimeout || took > creationTimeout+time.Second || calls < 100 {
			t.Errorf("%d calls in %v", calls, took)
		}
		ok(t, whileCreated(t.Context(), func() error {
			if calls++; calls%10 != 0 {
				return unfinished
			}
			return nil
		}))
	})
}

// startTogether starts a server for each URL at the same time. At most one creates the tables, and all find the
// standard traits and classes.
func startTogether(t *testing.T, fresh func(testing.TB) []string) {
	for range 3 {
		var made atomic.Int32
		var all sync.WaitGroup
		for i, url := range fresh(t) {
			db := openDB(t, url)
			all.Go(func() {
				s, err := Open(t.Context(), db)
				if err != nil {
					t.Error(err)
					return
				}
				if i > 0 { // as `berth placement db sync`; the first one as `berth placement`
					created, err := s.Create(t.Context())
					if created {
						made.Add(1)
					}
					if err != nil {
						t.Error(err)
					}
				}
				if err := s.Sync(t.Context()); err != nil {
					t.Error(err)
				}
				traits, err := s.Traits(t.Context(), TraitFilter{})
				if len(traits) != len(resource.StandardTraits()) || err != nil {
					t.Errorf("%d traits: %v", len(traits), err)
				}
				class, err := s.ClassNumbers(t.Context())
				if len(class) != len(resource.StandardClasses()) || class[0] != "VCPU" || err != nil {
					t.Errorf("classes %v: %v", class, err)
				}
			})
		}
		all.Wait()
		if made.Load() > 1 {
			t.Errorf("%d processes created the tables", made.Load())
		}
	}
}

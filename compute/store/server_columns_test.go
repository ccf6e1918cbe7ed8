package store

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/sqldb"
)

// plan returns how SQLite executes a query.
func plan(t *testing.T, db *sqldb.DB, query string, args ...any) string {
	t.Helper()
	var lines []string
	err := db.Read(t.Context(), func(tx *sqldb.Tx) error {
		rows, err := tx.Query(t.Context(), "EXPLAIN QUERY PLAN "+query, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id, parent, unused int
			var line string
			if err := rows.Scan(&id, &parent, &unused, &line); err != nil {
				return err
			}
			lines = append(lines, line)
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "; ")
}

// TestListsUseIndexes checks that SQLite finds the first row of a page, also of the last page, in the index of the
// filter, and sorts nothing.
func TestListsUseIndexes(t *testing.T) {
	_, db := openFile(t)
	for _, x := range []struct {
		filter ServerFilter
		index  string
	}{
		{ServerFilter{}, "all (ended=?"},
		{ServerFilter{Name: "web"}, "all (ended=?"},
		{ServerFilter{Project: "p"}, "project (project=? AND ended=?"},
		{ServerFilter{Project: "p", Name: "web"}, "project (project=? AND ended=?"},
		{ServerFilter{Status: "ERROR"}, "status (status=? AND ended=?"},
		{ServerFilter{Project: "p", Status: "ERROR"}, "project_status (project=? AND status=? AND ended=?"},
		{ServerFilter{Host: "h"}, "host (host=? AND ended=?"},
		{ServerFilter{Host: "h", Project: "p", Status: "ERROR"}, "host (host=? AND ended=?"},
	} {
		for _, marked := range []bool{false, true} {
			w, want := x.filter.where(db.Dialect), "INDEX compute_servers_by_"+x.index+")"
			if marked {
				w.after(listedRow{created: 7, ServerRef: ServerRef{ID: "m"}})
				want = strings.TrimSuffix(want, ")") + " AND created<?)"
			}
			got := plan(t, db, selectListed+w.sql()+orderListed, append(w.args, 1000)...)
			if !strings.Contains(got, want) || strings.Contains(got, "B-TREE") {
				t.Errorf("%+v: %s, want %s", x.filter, got, want)
			}
		}
	}
}

// TestChangeWritesEachColumn checks that a change writes every column that it must, and only those.
func TestChangeWritesEachColumn(t *testing.T) {
	s, db := openFile(t)
	at := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	one, _ := lifecycle.Next(lifecycle.Server{ID: "a", Name: "n", Project: "p", User: "u"}, lifecycle.Created{}, at)
	if err := s.Create(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	for i, change := range []func(*lifecycle.Server){
		func(s *lifecycle.Server) { s.Name, s.Description = "m", "d" },
		func(s *lifecycle.Server) { s.State, s.Host, s.Launched = lifecycle.Active, "h", at },
		func(s *lifecycle.Server) {
			s.Flavor.ID, s.Flavor.VCPUs, s.Flavor.MemoryMB, s.Flavor.DiskGB = "f", 1, 2, 3
		},
		func(s *lifecycle.Server) { s.Task = lifecycle.Rebooting },
		func(s *lifecycle.Server) { s.State, s.Ended, s.Updated = lifecycle.Deleted, at, at },
		func(s *lifecycle.Server) { s.Description = "only the record" },
	} {
		after, err := s.Change(t.Context(), "a", func(s lifecycle.Server) lifecycle.Server { change(&s); return s })
		if err != nil {
			t.Fatal(err)
		}
		values := make([]any, len(serverColumns))
		into := make([]any, len(values))
		for i := range values {
			into[i] = &values[i]
		}
		err = db.Read(t.Context(), func(tx *sqldb.Tx) error {
			return tx.QueryRow(t.Context(), "SELECT "+strings.Join(serverColumns, ", ")+" FROM compute_servers").Scan(into...)
		})
		if want := columns(after); err != nil || fmt.Sprint(values...) != fmt.Sprint(want...) {
			t.Errorf("change %d: the row is %v, want %v (%v)", i, values, want, err)
		}
	}
	statement, args := updateServer(one, one, nil)
	if want := "UPDATE compute_servers SET record = ? WHERE id = ? AND revision = ?"; statement != want || len(args) != 3 {
		t.Errorf("without a change: %s", statement)
	}
}

package store

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
)

// TestUnreadableRecordIsKept checks that a record that this program cannot read completely is an error with its name
// and what to do, and that it is not overwritten.
func TestUnreadableRecordIsKept(t *testing.T) {
	const id = "s"
	for _, text := range []string{`{"version":8,"id":"s","host":"cmp1","devices":[{}]}`,
		`{"id":"s","host":"cmp1","devices":[{`} {
		s, db := openFile(t)
		one, _ := lifecycle.Next(lifecycle.Server{ID: id, Name: "n"}, lifecycle.Created{}, time.Unix(1, 0))
		if err := s.Create(t.Context(), one); err != nil {
			t.Fatal(err)
		}
		execute(t, db, `INSERT INTO compute_hosts (name, provider, revision, seen, reports, report)
			VALUES ('cmp1', '', 0, 1, 0, '')`)
		execute(t, db, `UPDATE compute_servers SET record = ? WHERE id = ?`, text, id)
		execute(t, db, `UPDATE compute_hosts SET report = ? WHERE name = 'cmp1'`, text)
		s, err := Open(t.Context(), db) // without the record in memory
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Change(t.Context(), id, func(s lifecycle.Server) lifecycle.Server {
			s.Name = "changed"
			return s
		})
		if !isRejected(err, "server "+id, "start the Berth that wrote it") {
			t.Errorf("changing a server: %v", err)
		}
		_, err = s.Servers(t.Context(), ServerFilter{})
		if !isRejected(err, "server "+id, "start the Berth that wrote it") {
			t.Errorf("listing servers: %v", err)
		}
		err = s.PutReport(t.Context(), schedule.Host{Name: "cmp1"}, func(schedule.Host) error { return nil })
		if !isRejected(err, "host cmp1", "start the Berth that wrote it") {
			t.Errorf("storing a report: %v", err)
		}
		if _, err := s.Host(t.Context(), "cmp1"); !isRejected(err, "host cmp1", "start the Berth that wrote it") {
			t.Errorf("reading a report: %v", err)
		}
		kept := []string{
			storedRecord(t, db, `SELECT record FROM compute_servers WHERE id = ?`, id),
			storedRecord(t, db, `SELECT report FROM compute_hosts WHERE name = 'cmp1'`),
		}
		if !slices.Equal(kept, []string{text, text}) {
			t.Errorf("%s was changed to %q", text, kept)
		}
	}
}

// isRejected reports whether err is an internal fault that contains all texts.
func isRejected(err error, texts ...string) bool {
	return fault.Is(err, fault.Internal) && !slices.ContainsFunc(texts, func(text string) bool {
		return !strings.Contains(err.Error(), text)
	})
}

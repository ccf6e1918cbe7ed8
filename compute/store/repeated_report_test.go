package store

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/sqldb"
)

// conditions returns conditions with these texts.
func conditions(texts ...string) (list []condition.Condition) {
	for _, text := range texts {
		list = append(list, condition.New(condition.Sync, "", text))
	}
	return list
}

// TestRepeatedReportIsStoredWithOthers checks that a repeated report is in memory at once, that its time is stored with
// that of others, and that any other report is stored at once.
func TestRepeatedReportIsStoredWithOthers(t *testing.T) {
	s, db := openFile(t)
	began := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	report := func(name string, after time.Duration, texts ...string) {
		t.Helper()
		h := schedule.Host{Name: name, Provider: provider.ID("root-" + name), Conditions: conditions(texts...),
			Seen: began.Add(after)}
		if err := s.PutReport(t.Context(), h, func(schedule.Host) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Host(t.Context(), name); err != nil || !got.Seen.Equal(h.Seen) {
			t.Errorf("%s was seen at %s in memory, want %s (%v)", name, got.Seen, h.Seen, err)
		}
		all, err := s.Reports(t.Context(), []provider.ID{h.Provider})
		if err != nil || !all[h.Provider].Seen.Equal(h.Seen) {
			t.Errorf("%s was seen at %s for the scheduler, want %s (%v)", name, all[h.Provider].Seen, h.Seen, err)
		}
	}
	stored := func(name string, after time.Duration) {
		t.Helper()
		var seen int64
		err := db.Read(t.Context(), func(tx *sqldb.Tx) error {
			return tx.QueryRow(t.Context(), `SELECT seen FROM compute_hosts WHERE name = ?`, name).Scan(&seen)
		})
		if err != nil || seen != micros(began.Add(after)) {
			t.Errorf("stored of %s: %s, want %s (%v)", name, time.UnixMicro(seen).UTC(), began.Add(after), err)
		}
	}
	report("a", 0)
	report("b", 0)
	report("a", 10*time.Second)
	report("b", 20*time.Second)
	stored("a", 0)
	stored("b", 0)
	report("a", 40*time.Second) // 30 s after the first that was not stored
	stored("a", 40*time.Second)
	stored("b", 20*time.Second)
	report("b", 50*time.Second)
	report("b", 51*time.Second, "changed")
	stored("b", 51*time.Second)
	report("a", 100*time.Second)
	report("a", 130*time.Second)
	stored("b", 51*time.Second) // not an earlier time that was waiting
	stored("a", 130*time.Second)
}

// TestRepeatedReportNeedsAdmission checks that a repeated report is refused as any other, and that one of a host that
// was forgotten is stored.
func TestRepeatedReportNeedsAdmission(t *testing.T) {
	s, _ := openFile(t)
	h := schedule.Host{Name: "a", Provider: "root", Seen: time.Unix(1_000_000, 0).UTC()}
	admit := func(schedule.Host) error { return nil }
	for range 2 {
		if err := s.PutReport(t.Context(), h, admit); err != nil {
			t.Fatal(err)
		}
	}
	refused := fault.New(fault.Conflict, "another agent")
	later := h
	later.Seen = h.Seen.Add(time.Second)
	if err := s.PutReport(t.Context(), later, func(known schedule.Host) error {
		if known.Name != "a" {
			t.Errorf("admitted against %+v", known)
		}
		return refused
	}); !errors.Is(err, refused) {
		t.Errorf("%v, want %v", err, refused)
	}
	if got, err := s.Host(t.Context(), "a"); err != nil || !got.Seen.Equal(h.Seen) {
		t.Errorf("a refused report has changed the host: %+v %v", got, err)
	}
	if err := s.Forget(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if err := s.PutReport(t.Context(), h, admit); err != nil {
		t.Fatal(err)
	}
	if list, err := s.Hosts(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("%+v %v", list, err)
	}
}

// TestManyRepeatedReportsAreStored checks that the times of many hosts do not wait for 30 s.
func TestManyRepeatedReportsAreStored(t *testing.T) {
	c := newReportCache()
	at := time.Unix(1_000_000, 0)
	for n := range maxUnstoredSeen {
		due := c.seen(fmt.Sprint("h", n), at)
		if want := n == maxUnstoredSeen-1; (due != nil) != want || want && len(due) != maxUnstoredSeen {
			t.Fatalf("after %d reports %d times are due", n+1, len(due))
		}
	}
	c.seen("h1", at.Add(time.Second))
	c.notStored(map[string]time.Time{"h1": at, "h2": at})
	if c.unstored["h1"] != at.Add(time.Second) || c.unstored["h2"] != at {
		t.Errorf("%v", c.unstored)
	}
}

// TestHostsAreReadOnce checks that the list of hosts comes from memory after it was read, and has each later report.
func TestHostsAreReadOnce(t *testing.T) {
	s, db := openFile(t)
	put := func(name, text string) {
		t.Helper()
		h := schedule.Host{Name: name, Provider: provider.ID("root-" + name), Conditions: conditions(text),
			Seen: time.Unix(1_000_000, 0)}
		if err := s.PutReport(t.Context(), h, func(schedule.Host) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	list := func() (text string) {
		t.Helper()
		hosts, err := s.Hosts(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range hosts {
			text += h.Name + "=" + h.Conditions[0].Text + " "
		}
		return text
	}
	put("b", "1")
	put("a", "1")
	list()
	unreadable := func(tx *sqldb.Tx) error {
		_, err := tx.Exec(t.Context(), `UPDATE compute_hosts SET report = 'unreadable'`)
		return err
	}
	if err := db.Write(t.Context(), unreadable); err != nil {
		t.Fatal(err)
	}
	if got := list(); got != "a=1 b=1 " {
		t.Errorf("read %q", got)
	}
	put("a", "2")
	put("b", "2")
	if got := list(); got != "a=2 b=2 " {
		t.Errorf("after a report %q", got)
	}
	put("c", "1")
	if got := list(); got != "a=2 b=2 c=1 " {
		t.Errorf("after the first report of a host %q", got)
	}
	if err := s.Forget(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	if got := list(); got != "a=2 c=1 " {
		t.Errorf("after a host was forgotten %q", got)
	}
}

// TestConditionsKeepTheirTime checks that a condition has the time of its first report, also after its text changes and
// after compute's start, and that a repeated report stays one.
func TestConditionsKeepTheirTime(t *testing.T) {
	s, db := openFile(t)
	began := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	put := func(s *Store, minute int, texts ...string) (since []string, seen int) {
		t.Helper()
		h := schedule.Host{Name: "a", Provider: "root-a", Conditions: conditions(texts...),
			Seen: began.Add(time.Duration(minute) * time.Minute)}
		if err := s.PutReport(t.Context(), h, func(schedule.Host) error { return nil }); err != nil {
			t.Fatal(err)
		}
		got, err := s.Host(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range got.Conditions {
			since = append(since, c.Since.Format("15:04"))
		}
		return since, reportCount(t, db)
	}
	want := func(since []string, count int, wantCount int, times ...string) {
		t.Helper()
		if !slices.Equal(since, times) || count != wantCount {
			t.Errorf("since %v, %d stored; want %v, %d", since, count, times, wantCount)
		}
	}
	since, count := put(s, 0, "one")
	want(since, count, 1, "12:00")
	since, count = put(s, 1, "one")
	want(since, count, 1, "12:00")
	since, count = put(s, 2, "one", "two")
	want(since, count, 2, "12:00", "12:02")
	since, count = put(s, 3, "two changed", "one")
	want(since, count, 3, "12:02", "12:00")
	again, err := Open(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	since, count = put(again, 4, "two changed", "one")
	want(since, count, 4, "12:02", "12:00")
	since, count = put(again, 5)
	want(since, count, 5)
	since, count = put(again, 6, "one")
	want(since, count, 6, "12:06")
}

// reportCount returns how often a report of the host a was stored.
func reportCount(t *testing.T, db *sqldb.DB) (n int) {
	t.Helper()
	if err := db.Read(t.Context(), func(tx *sqldb.Tx) error {
		return tx.QueryRow(t.Context(), `SELECT reports FROM compute_hosts WHERE name = 'a'`).Scan(&n)
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

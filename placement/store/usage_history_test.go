package store

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/openberth/berth/placement/history"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

type stocks = map[resource.Class]index.Stock

func testHistory(t *testing.T, s *Store) {
	ctx := t.Context()
	ok(t, s.CreateHistory(ctx))
	ok(t, s.CreateHistory(ctx))
	before := dump(t, s)
	const first = int64(500_000 * history.Minutes)
	record := func(minute int64, used int, want bool) {
		t.Helper()
		recorded, err := s.RecordUsage(ctx, minute, stocks{"VCPU": {Total: 8, Used: used}, "CUSTOM_é": {Total: used}})
		ok(t, err)
		equal(t, fmt.Sprint("minute ", minute-first), recorded, want)
	}
	texts := func(first, last int64, classes ...resource.Class) map[string]string {
		t.Helper()
		all := map[string]string{}
		for _, row := range must(s.UsageHistory(ctx, first, last, classes...)) {
			all[fmt.Sprint(row.Hour, " ", row.Class)] = row.Text
		}
		return all
	}
	record(first, 1, true)
	record(first, 2, false)
	record(first+1, 1, true)
	record(first+5, 3, true)
	record(first+4, 4, false)
	record(first+60, 5, true)
	equal(t, "all", texts(0, 1<<40), map[string]string{"500000 ": "23", "500000 VCPU": "0:8,0,1 5:8,0,3",
		"500000 CUSTOM_é": "0:1,0,0 5:3,0,0", "500001 ": "1", "500001 VCPU": "0:8,0,5", "500001 CUSTOM_é": "0:5,0,0"})
	equal(t, "one", texts(500001, 500001, "VCPU"), map[string]string{"500001 ": "1", "500001 VCPU": "0:8,0,5"})

	// An hour replaces that of a month ago. A clock that is a year ahead for a minute costs one hour.
	record(first+2*60, 6, true)
	record(first+365*24*60, 7, true)
	record(first+history.Hours*60, 8, true)
	var left []int64
	for _, row := range must(s.UsageHistory(ctx, 0, 1<<40, "VCPU")) {
		if row.Class == "" {
			left = append(left, row.Hour-500_000)
		}
	}
	equal(t, "hours", left, []int64{1, 2, history.Hours, 365 * 24})
	equal(t, "tables of the original", diff(before, dump(t, s)), []string(nil))

	ok(t, s.db.Write(ctx, func(tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE "+historyTable+" SET content = 'x' WHERE class = ''")
		return err
	}))
	if _, err := s.RecordUsage(ctx, first+history.Hours*60+1, stocks{}); err == nil {
		t.Error("a damaged row was accepted")
	}
}

// Of several processes that record the same minutes, one records each.
func historyRace(t *testing.T, stores ...*Store) {
	ctx, counts := t.Context(), [130]atomic.Int32{}
	for _, s := range stores {
		ok(t, s.CreateHistory(ctx))
	}
	var all sync.WaitGroup
	for n, s := range stores {
		all.Go(func() {
			for minute := range counts {
				recorded, err := s.RecordUsage(ctx, int64(minute), stocks{"VCPU": {Total: 8, Used: minute % (n + 2)}})
				if err != nil {
					t.Error(err)
				}
				if recorded {
					counts[minute].Add(1)
				}
			}
		})
	}
	all.Wait()
	for minute := range counts {
		if n := counts[minute].Load(); n != 1 {
			t.Errorf("minute %d was recorded %d times", minute, n)
		}
	}
	rows := must(stores[0].UsageHistory(ctx, 0, 2))
	found := must(history.Range{Step: 1, Steps: len(counts)}.Sample(rows))
	for minute, stock := range found["VCPU"] {
		if stock == nil || stock.Total != 8 {
			t.Errorf("minute %d: %v", minute, stock)
		}
	}
	if len(found["VCPU"]) != len(counts) {
		t.Errorf("%v", found)
	}
}

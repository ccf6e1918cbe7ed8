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
	const first, rack = int64(500_000 * history.Minutes), resource.AggregateID("10000000-0000-4000-8000-000000000900")
	record := func(minute int64, used int, want bool, aggregates ...resource.AggregateID) {
		t.Helper()
		all := map[resource.AggregateID]stocks{WholeCloud: {"VCPU": {Total: 8, Used: used}}}
		for _, id := range aggregates {
			all[id] = stocks{"CUSTOM_é": {Total: used}}
		}
		recorded, err := s.RecordUsage(ctx, minute, all)
		ok(t, err)
		equal(t, fmt.Sprint("minute ", minute-first), recorded, want)
	}
	rows := func(id resource.AggregateID, first, last int64) []history.Row {
		t.Helper()
		return must(s.UsageHistory(ctx, id, first, last))
	}
	record(first, 1, true)
	record(first, 2, false, rack)
	record(first+1, 1, true, rack)
	record(first+5, 3, true, rack)
	record(first+4, 4, false, rack)
	record(first+6, 3, true)
	record(first+60, 5, true)
	equal(t, "all", rows(WholeCloud, 0, 1<<40), []history.Row{
		{Hour: 500000, Text: "63\n" + `"VCPU" 0:8,0,1 5:8,0,3`},
		{Hour: 500001, Text: "1\n" + `"VCPU" 0:8,0,5`}})
	equal(t, "an hour", rows(WholeCloud, 500001, 500001), rows(WholeCloud, 0, 1<<40)[1:])
	equal(t, "aggregate", rows(rack, 0, 1<<40), []history.Row{
		{Hour: 500000, Text: "22\n" + `"CUSTOM_é" 1:1,0,0 5:3,0,0`}})

	// An hour replaces that of a month ago. A clock that is a year ahead for a minute costs one hour.
	record(first+2*60, 6, true)
	record(first+365*24*60, 7, true)
	record(first+history.Hours*60, 8, true)
	var left []int64
	for _, row := range rows(WholeCloud, 0, 1<<40) {
		left = append(left, row.Hour-500_000)
	}
	equal(t, "hours", left, []int64{1, 2, history.Hours, 365 * 24})
	equal(t, "hours of the aggregate", len(rows(rack, 0, 1<<40)), 0)
	equal(t, "tables of the original", diff(before, dump(t, s)), []string(nil))

	ok(t, s.db.Write(ctx, func(tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE "+historyTable+" SET content = 'x'")
		return err
	}))
	if _, err := s.RecordUsage(ctx, first+history.Hours*60+1, nil); err == nil {
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
				recorded, err := s.RecordUsage(ctx, int64(minute), map[resource.AggregateID]stocks{
					WholeCloud: {"VCPU": {Total: 8, Used: minute % (n + 2)}}, "a": {"VCPU": {Total: n + 1}}})
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
	for _, id := range []resource.AggregateID{WholeCloud, "a"} {
		rows := must(stores[0].UsageHistory(ctx, id, 0, 2))
		found := must(history.Range{Step: 1, Steps: len(counts)}.Sample(rows))
		for minute, stock := range found["VCPU"] {
			if stock == nil || stock.Total == 0 {
				t.Errorf("minute %d of %q: %v", minute, id, stock)
			}
		}
		if len(found["VCPU"]) != len(counts) {
			t.Errorf("%v", found)
		}
	}
}

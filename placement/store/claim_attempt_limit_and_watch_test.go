package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

// A claim or a reshape that conflicts with other writes is tried ClaimAttempts times.
func TestClaimAttempts(t *testing.T) {
	s := openStore(t, "sqlite:///"+filepath.Join(t.TempDir(), "placement.db"))
	if s.ClaimAttempts != 10 {
		t.Errorf("default of ClaimAttempts is %d, want 10 as in the original", s.ClaimAttempts)
	}
	host(t, s, 1, 0)
	ok(t, s.db.Write(t.Context(), func(tx *sqldb.Tx) error { // no update of a generation affects a row
		_, err := tx.Exec(t.Context(),
			"CREATE TRIGGER lost BEFORE UPDATE OF generation ON resource_providers BEGIN SELECT RAISE(IGNORE); END")
		return err
	}))
	var runs []Run
	s.Watch = func(r Run) { runs = append(runs, r) }
	for configured, want := range map[int]int{-1: 1, 0: 1, 1: 1, 3: 3, 11: 11} {
		s.ClaimAttempts, runs = configured, nil
		_, err := s.PutAllocations(t.Context(), claim(500, 1, 1))
		refused(t, err, fault.Conflict, codeConcurrent, "changed at the same moment")
		if len(runs) != 1 || runs[0].Op != "PutAllocations" || runs[0].Attempts != want || runs[0].Err != err {
			t.Errorf("configured %d: %+v, want %d attempts", configured, runs, want)
		}
	}
	s.ClaimAttempts, runs = 2, nil
	inventories := map[provider.ID]NewInventories{
		id(1): {
			Generation: generation(t, s, 1),
			Classes:    map[resource.Class]resource.Inventory{"VCPU": resource.Whole(10)},
		},
	}
	_, err := s.Reshape(t.Context(), inventories, nil)
	refused(t, err, fault.Conflict, codeConcurrent, "changed at the same moment")
	if last := runs[len(runs)-1]; last.Op != "Reshape" || last.Attempts != 2 {
		t.Errorf("%+v", runs)
	}
}

// Watch is called after each transaction with its operation, attempts, duration and error.
func TestWatchReportsEachTransaction(t *testing.T) {
	s := openStore(t, "sqlite:///"+filepath.Join(t.TempDir(), "placement.db"))
	var runs []Run
	s.Watch = func(r Run) { runs = append(runs, r) }
	clock := time.Unix(0, 0)
	s.Now = func() time.Time { clock = clock.Add(time.Second); return clock }
	fails := errors.New("no")
	_ = s.write(t.Context(), "A", func(*sqldb.Tx) error { return nil })
	_ = s.read(t.Context(), "B", func(*sqldb.Tx) error { return fails })
	tries := 0
	_ = s.write(t.Context(), "C", func(*sqldb.Tx) error {
		if tries++; tries < 3 {
			return sqldb.Retry(fails)
		}
		return nil
	})
	ok(t, s.db.Close())
	_ = s.write(t.Context(), "D", func(*sqldb.Tx) error { return nil })
	for i, want := range []string{"A 1 true", "B 1 false", "C 3 true", "D 0 false"} {
		if got := fmt.Sprint(runs[i].Op, " ", runs[i].Attempts, " ", runs[i].Err == nil); got != want ||
			runs[i].Took != time.Second {
			t.Errorf("%s in %s, want %s", got, runs[i].Took, want)
		}
	}
}

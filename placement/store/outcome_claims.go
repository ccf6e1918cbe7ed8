package store

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

// attempt is one try to carry claims out: what it found, what it wrote, and what it did if it was kept.
type claimAttempt struct {
	known  map[resource.ConsumerID]consumerRow // the consumers before it
	first  firstRow
	raised []raisedProvider
	at     time.Time // its time stamp
	change Change
}

// firstRow is the first allocation that an attempt inserted. No other transaction has one with this number and time
// stamp for this consumer. Without allocations the consumer is empty.
type firstRow struct {
	id       int64
	consumer resource.ConsumerID
}

// findClaims finds out what became of an attempt. A claim is kept exactly when its first allocation is there, as long
// as no other transaction has changed the same consumer since.
func (s *Store) findClaims(ctx context.Context, claims []Claim, a claimAttempt) (outcome, error) {
	ids := providersOfClaims(claims)
	for _, r := range a.raised {
		ids = append(ids, r.id)
	}
	return s.findOut(ctx, ids, func(tx *sqldb.Tx) (outcome, error) { return a.judge(ctx, tx, claims) })
}

func (a claimAttempt) judge(ctx context.Context, tx *sqldb.Tx, claims []Claim) (outcome, error) {
	there, err := a.first.exists(ctx, tx, a.at)
	if err != nil || there {
		return committed, err
	}
	now, err := findConsumers(ctx, tx, consumersOfClaims(claims))
	if err != nil {
		return undecided, err
	}
	for _, r := range a.raised {
		became, err := r.judge(ctx, tx, a.at)
		switch {
		case err != nil || became == rolledBack:
			return became, err
		case became == committed && now[a.first.consumer].hasAllocationOn(r.row): // a later claim has raised this provider
			return rolledBack, nil
		}
	}
	return a.compare(claims, now), nil
}

// compare judges by the consumers before and after, when the first allocation is not there.
func (a claimAttempt) compare(claims []Claim, now map[resource.ConsumerID]consumerRow) outcome {
	became := unchanged
	for _, c := range claims {
		was, existed := a.known[c.Consumer]
		is, exists := now[c.Consumer]
		switch same := existed && exists && is.id == was.id; {
		case same && (is.generation == was.generation || len(c.Allocation) == 0):
			return rolledBack // the attempt would have raised the generation, or removed the consumer
		case same && c.Consumer == a.first.consumer && is.generation == was.generation+1:
			return rolledBack // each generation is made by one transaction
		case !existed && !exists, !existed && len(c.Allocation) == 0:
		case !exists && len(c.Allocation) == 0 && a.first.consumer == "" && became != undecided:
			became = committed // it is gone; who removed it does not matter
		default:
			became = undecided
		}
	}
	return became
}

// there reports whether the row is in the database, with the time stamp at.
func (f firstRow) exists(ctx context.Context, tx *sqldb.Tx, at time.Time) (found bool, err error) {
	if f.consumer == "" {
		return false, nil
	}
	err = queryEach(ctx, tx, "SELECT created_at FROM allocations WHERE id = ? AND consumer_id = ?", []any{f.id,
		f.consumer}, func(rows *sql.Rows) error {
		var created sql.NullTime
		err := rows.Scan(&created)
		found = matchesTimestamp(tx, created, at)
		return err
	})
	return found, err
}

// holds reports whether a consumer holds something of the provider with this number.
func (c consumerRow) hasAllocationOn(provider int64) bool {
	return slices.ContainsFunc(c.providers, func(p providerRow) bool { return p.id == provider })
}

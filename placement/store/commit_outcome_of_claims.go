package store

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"time"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

// claimAttempt is one attempt to replace allocations: the state before, the rows written, and the effect if it is
// committed.
type claimAttempt struct {
	known  map[resource.ConsumerID]consumerRow // before the attempt
	first  firstRow
	raised []raisedProvider
	at     time.Time // its timestamp
	change Change
}

// firstRow is the first allocation that an attempt inserted. No other transaction has one with this id and timestamp
// for this consumer. Without allocations the consumer is empty.
type firstRow struct {
	id       int64
	consumer resource.ConsumerID
}

// findClaims determines the outcome of an attempt. It is committed exactly if its first allocation exists, as long as
// no other transaction has changed the same consumer since.
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
		case became == committed && now[a.first.consumer].hasAllocationOn(r.row):
			// a later claim has raised this provider
			return rolledBack, nil
		}
	}
	return a.compare(claims, now), nil
}

// compare returns the outcome from the consumers before and after, if the first allocation does not exist.
func (a claimAttempt) compare(claims []Claim, now map[resource.ConsumerID]consumerRow) outcome {
	became := unchanged
	for _, c := range claims {
		was, existed := a.known[c.Consumer]
		is, exists := now[c.Consumer]
		switch same := existed && exists && is.id == was.id; {
		case same && (is.generation == was.generation || len(c.Allocation) == 0):
			return rolledBack // the attempt would have raised the generation, or removed the consumer
		case same && c.Consumer == a.first.consumer && is.generation == was.generation+1:
			return rolledBack // only one transaction sets each generation
		case !existed && !exists, !existed && len(c.Allocation) == 0:
		case !exists && len(c.Allocation) == 0 && a.first.consumer == "" && became != undecided:
			became = committed // it is gone; any client may have removed it
		default:
			became = undecided
		}
	}
	return became
}

// exists reports whether the row is in the database, with the timestamp at.
func (f firstRow) exists(ctx context.Context, tx *sqldb.Tx, at time.Time) (found bool, err error) {
	if f.consumer == "" {
		return false, nil
	}
	err = sqldb.QueryEach(ctx, tx, "SELECT created_at FROM allocations WHERE id = ? AND consumer_id = ?", []any{f.id,
		f.consumer}, func(rows *sql.Rows) error {
		var created sql.NullTime
		err := rows.Scan(&created)
		found = matchesTimestamp(tx, created, at)
		return err
	})
	return found, err
}

// hasAllocationOn reports whether a consumer has an allocation on the provider with this id.
func (c consumerRow) hasAllocationOn(provider int64) bool {
	return slices.ContainsFunc(c.providers, func(p providerRow) bool { return p.id == provider })
}

// providersOfClaims lists the providers that claims name.
func providersOfClaims(claims []Claim) []provider.ID {
	var list []provider.ID
	for _, c := range claims {
		list = slices.AppendSeq(list, maps.Keys(c.Allocation))
	}
	return sortedSet(list)
}

func consumersOfClaims(claims []Claim) []resource.ConsumerID {
	ids := make([]resource.ConsumerID, len(claims))
	for i, c := range claims {
		ids[i] = c.Consumer
	}
	return ids
}

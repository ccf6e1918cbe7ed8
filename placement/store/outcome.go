package store

import (
	"context"
	"database/sql"
	"maps"
	"time"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

// CodeUnknownOutcome is the code of the fault Unavailable of a write that may have been kept or not: the connection to the database, or a
// node of its cluster, was lost at COMMIT.
const CodeUnknownOutcome = sqldb.CodeUnknown

const (
	outcomes    = 3                // how often a write whose outcome was unknown is begun
	outcomeTime = 15 * time.Second // how long it may take to find out; the database may hold on to a lost transaction
)

// attempt is one try to carry claims out: what it found, and what it did if it was kept.
type attempt struct {
	known  map[resource.ConsumerID]consumerRow
	change Change
}

// verdict is what became of an attempt.
type verdict int

const (
	unsure verdict = iota // others have written since, so that nobody can tell
	kept
	undone
)

// findOut asks the database what became of an attempt whose COMMIT broke. It may still be running there, so first the providers and
// consumers are locked, which waits for its end.
func (s *Store) findOut(ctx context.Context, claims []Claim, a attempt) (became verdict, err error) {
	ctx, cancel := sqldb.Patient(ctx)
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, outcomeTime)
	defer cancel()
	ids, consumers := named(claims), make([]resource.ConsumerID, len(claims))
	for i, c := range claims {
		consumers[i] = c.Consumer
		for _, p := range a.known[c.Consumer].left {
			ids = append(ids, p.ID)
		}
	}
	err = s.write(ctx, "findOut", func(tx *sqldb.Tx) error {
		if err := tx.SeeCommits(ctx); err != nil {
			return err
		}
		if err := hold(ctx, tx, set(ids)...); err != nil {
			return err
		}
		if err := execOf(ctx, tx, "UPDATE consumers SET generation = generation WHERE uuid IN (%)", consumers); err != nil {
			return err
		}
		now, err := findConsumers(ctx, tx, consumers)
		if err != nil {
			return err
		}
		held, err := heldBy(ctx, tx, consumers)
		became = judge(claims, a.known, now, held)
		return err
	})
	return became, err
}

// judge says what became of claims, which were one transaction: so the first that tells, tells of all.
func judge(claims []Claim, before, now map[resource.ConsumerID]consumerRow, held map[resource.ConsumerID]resource.Allocation) verdict {
	became := kept // when no claim says anything: they changed nothing, either way
	for _, c := range claims {
		was, existed := before[c.Consumer]
		is, exists := now[c.Consumer]
		if !existed && len(c.Allocation) == 0 {
			continue
		}
		if became = judgeOne(c, was, is, existed, exists, held[c.Consumer]); became != unsure {
			break
		}
	}
	return became
}

func judgeOne(c Claim, was, is consumerRow, existed, exists bool, held resource.Allocation) verdict {
	same := maps.EqualFunc(held, c.Allocation, func(a, b resource.Amounts) bool { return maps.Equal(a, b) })
	switch {
	case !exists && len(c.Allocation) == 0:
		return kept
	case !exists && !existed:
		return undone
	case !exists || existed && is.id != was.id: // somebody else has removed it, before or after
		return unsure
	case existed && is.generation == was.generation:
		return undone
	case len(c.Allocation) == 0 || is.generation != was.generation+1: // a new consumer has 1
		return unsure
	case same:
		return kept
	}
	return undone // each generation is made by one transaction: this one by somebody else
}

// heldBy reads what consumers hold.
func heldBy(ctx context.Context, tx *sqldb.Tx, consumers []resource.ConsumerID) (map[resource.ConsumerID]resource.Allocation, error) {
	found := map[resource.ConsumerID]resource.Allocation{}
	err := eachOf(ctx, tx, "SELECT a.consumer_id, p.uuid, k.name, a.used FROM allocations a JOIN resource_providers p ON p.id = a.resource_provider_id "+
		"JOIN resource_classes k ON k.id = a.resource_class_id WHERE a.consumer_id IN (%)", consumers, func(rows *sql.Rows) error {
		var consumer resource.ConsumerID
		var id provider.ID
		var class resource.Class
		var used int
		err := rows.Scan(&consumer, &id, &class, &used)
		if found[consumer] == nil {
			found[consumer] = resource.Allocation{}
		}
		if found[consumer][id] == nil {
			found[consumer][id] = resource.Amounts{}
		}
		found[consumer][id][class] = used
		return err
	})
	return found, err
}

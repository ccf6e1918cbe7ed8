package store

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

// This file performs the requests of a batch in one transaction, with one statement for each table.
//
// A batch performs the frequent requests: claims of consumers that do not exist yet, on providers that no other
// transaction has locked; and removals of consumers that have allocations. It refuses claims that do not fit. Every
// other request is left out, and runs its own transaction after the batch: only that one waits for locks, replaces
// allocations and returns the other errors. If the transaction of a batch fails, all of its requests do so.

const (
	batchAttempts = 2 // how often the transaction of a batch is run
	maxJoins      = 3 // how many batches a request joins while another transaction has locked its providers
)

// newBatchQueue returns a queue, or nil on SQLite, where sqldb lets transactions share a COMMIT.
func newBatchQueue(s *Store) *batchQueue {
	if s.db.Dialect == sqldb.SQLite {
		return nil
	}
	return &batchQueue{run: s.runBatch}
}

// attemptClaims performs claims in a batch or in a transaction of their own.
func (s *Store) attemptClaims(ctx context.Context, claims []Claim) (claimAttempt, error) {
	if !s.batches.usable() || !canBatch(claims) {
		return s.tryClaims(ctx, claims)
	}
	m := &batchMember{ctx: ctx, claims: claims}
	if err := s.batches.join(m); err != nil {
		return m.attempt, err
	}
	for joined := 1; m.locked && joined < maxJoins; joined++ {
		m = &batchMember{ctx: ctx, claims: claims}
		if err := s.batches.join(m); err != nil {
			return m.attempt, err
		}
	}
	if m.done {
		return m.attempt, s.watchMember("PutAllocations", m)
	}
	defer s.batches.leave(m)
	return s.tryClaims(ctx, claims)
}

// attemptRemoval removes a consumer in a batch or in a transaction of its own.
func (s *Store) attemptRemoval(ctx context.Context, consumer resource.ConsumerID) (removal, error) {
	if !s.batches.usable() || !isPlainText(string(consumer)) {
		return s.deleteAllocations(ctx, consumer)
	}
	m := &batchMember{ctx: ctx, removed: consumer}
	if err := s.batches.join(m); err != nil {
		return m.removal, err
	}
	if m.done {
		return m.removal, s.watchMember("DeleteAllocations", m)
	}
	defer s.batches.leave(m)
	return s.deleteAllocations(ctx, consumer)
}

// canBatch reports whether a batch may be able to perform claims, as far as the claims alone show.
func canBatch(claims []Claim) bool {
	for _, c := range claims {
		if len(c.Allocation) == 0 || c.Generation != nil || c.TreeState != "" || !isPlainText(string(c.Consumer)) ||
			!isPlainText(c.Project) ||
			!isPlainText(c.User) || !isPlainText(c.ConsumerType) {
			return false
		}
	}
	return len(claims) > 0
}

// isPlainText reports whether every database can store a text.
func isPlainText(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r == 0 || r > 0xFFFF })
}

// watchMember reports a request that a batch has performed to Watch, and returns its error.
func (s *Store) watchMember(op string, m *batchMember) error {
	err := wrapError(m.err)
	if s.Watch != nil {
		s.Watch(Run{Op: op, Attempts: 1, Took: s.Now().Sub(m.began), Err: err})
	}
	return err
}

// runBatch performs the requests of a batch in one transaction, and sets the results of those that it has performed.
func (s *Store) runBatch(members []*batchMember) {
	ctx, cancel := batchContext(members)
	defer cancel()
	for _, m := range members {
		m.began = s.Now()
	}
	var b *claimBatch
	err := s.db.WriteUpTo(ctx, batchAttempts, func(tx *sqldb.Tx) error {
		b = newClaimBatch(s, tx, members)
		return b.perform(ctx)
	})
	if sqldb.IsSyntaxError(err) {
		s.batches.off.Store(true) // the server is too old for SKIP LOCKED, or MySQL, which has no RETURNING
	}
	if err != nil && !sqldb.IsUnknown(err) {
		return
	}
	for _, m := range slices.Concat(b.claims, b.removals) {
		m.done, m.err = true, err
	}
	for m, refusal := range b.refused {
		if m.done = err == nil; m.done { // otherwise claims before it may not be committed
			m.err, m.attempt = refusal, claimAttempt{}
		}
	}
	for _, m := range b.locked {
		m.locked = true
	}
}

// batchContext returns a context with the earliest deadline of the members. It is not cancelled when a client
// disconnects.
func batchContext(members []*batchMember) (context.Context, context.CancelFunc) {
	ctx := context.WithoutCancel(members[0].ctx)
	var earliest time.Time
	for _, m := range members {
		if at, ok := m.ctx.Deadline(); ok && (earliest.IsZero() || at.Before(earliest)) {
			earliest = at
		}
	}
	if earliest.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, earliest)
}

// claimBatch is one run of a batch's transaction.
type claimBatch struct {
	store    *Store // with a fixed clock
	tx       *sqldb.Tx
	claims   []*batchMember // those that are performed
	removals []*batchMember
	locked   []*batchMember // those that are left out because of another transaction
	refused  map[*batchMember]error
	want     claimTargets
}

func newClaimBatch(s *Store, tx *sqldb.Tx, members []*batchMember) *claimBatch {
	b := &claimBatch{store: s.withFixedClock(), tx: tx, refused: map[*batchMember]error{}}
	for _, m := range members {
		if len(m.claims) > 0 {
			b.claims = append(b.claims, m)
		} else {
			b.removals = append(b.removals, m)
		}
	}
	return b
}

// perform performs the requests. The providers are locked before anything is read, because MariaDB shows the state at
// the first read.
func (b *claimBatch) perform(ctx context.Context) error {
	if err := b.tx.SeeCommits(ctx); err != nil {
		return err
	}
	for _, phase := range []func(context.Context) error{b.lock, b.remove, b.skipKnown, b.judge, b.write} {
		if err := phase(ctx); err != nil {
			return err
		}
	}
	return nil
}

// lock locks the providers of the claims, without waiting, and leaves out requests for other providers.
func (b *claimBatch) lock(ctx context.Context) error {
	clause := ") FOR UPDATE SKIP LOCKED"
	if b.tx.Dialect == sqldb.PostgreSQL {
		clause = ") FOR NO KEY UPDATE SKIP LOCKED" // as an UPDATE of the generation
	}
	locked := map[provider.ID]bool{}
	err := sqldb.QueryIn(ctx, b.tx, "SELECT uuid FROM resource_providers WHERE uuid IN (%"+clause, padded(b.providers()),
		func(rows *sql.Rows) error {
			var id provider.ID
			err := rows.Scan(&id)
			locked[id] = true
			return err
		})
	b.keep(func(m *batchMember) bool {
		if slices.ContainsFunc(providersOfClaims(m.claims), func(id provider.ID) bool { return !locked[id] }) {
			b.locked = append(b.locked, m)
			return false
		}
		return true
	})
	return err
}

// remove performs the removals of consumers that have allocations, and leaves out the others.
func (b *claimBatch) remove(ctx context.Context) error {
	held, err := readHeld(ctx, b.tx, b.removed())
	if err != nil {
		return err
	}
	b.removals = slices.DeleteFunc(b.removals, func(m *batchMember) bool { return held[m.removed] == nil })
	deleted, err := deleteAllocationRows(ctx, b.tx, b.removed())
	if err != nil {
		return err
	}
	for _, m := range b.removals {
		m.removal = held[m.removed].removal(deleted[m.removed])
	}
	return execIn(ctx, b.tx, "DELETE FROM consumers WHERE uuid IN (%) AND NOT EXISTS (SELECT 1 FROM allocations a "+
		"WHERE a.consumer_id = consumers.uuid)", b.removed())
}

// removed lists the consumers of the removals.
func (b *claimBatch) removed() []resource.ConsumerID {
	list := make([]resource.ConsumerID, len(b.removals))
	for i, m := range b.removals {
		list[i] = m.removed
	}
	return padded(list)
}

// skipKnown leaves out claims of consumers that exist.
func (b *claimBatch) skipKnown(ctx context.Context) error {
	known := map[resource.ConsumerID]bool{}
	err := sqldb.QueryIn(ctx, b.tx, "SELECT uuid FROM consumers WHERE uuid IN (%)", padded(consumersOfClaims(b.all())),
		func(rows *sql.Rows) error {
			var id resource.ConsumerID
			err := rows.Scan(&id)
			known[id] = true
			return err
		})
	b.keep(func(m *batchMember) bool {
		return !slices.ContainsFunc(m.claims, func(c Claim) bool { return known[c.Consumer] })
	})
	return err
}

// judge reads the inventories and usages of the providers, and refuses claims that do not fit beside those before them.
// It leaves out claims of classes that it has not read.
func (b *claimBatch) judge(ctx context.Context) (err error) {
	b.want, err = readTargets(ctx, b.tx, padded(b.providers()))
	b.keep(func(m *batchMember) bool {
		known, refusal := b.want.grant(m.claims)
		if known && refusal != nil {
			b.refused[m] = refusal
		}
		return known && refusal == nil
	})
	return err
}

// write writes the claims that are left, and raises the generation of each provider once for each request.
func (b *claimBatch) write(ctx context.Context) error {
	all := b.all()
	if len(all) == 0 {
		return nil
	}
	times := map[provider.ID]int{}
	for _, m := range b.claims {
		for _, id := range providersOfClaims(m.claims) {
			times[id]++
		}
	}
	if err := b.raise(ctx, times); err != nil {
		return err
	}
	if err := b.store.writeConsumers(ctx, b.tx, all, nil); err != nil {
		return err
	}
	for _, m := range b.claims {
		var list []providerRow
		m.attempt = claimAttempt{at: b.store.now()}
		for _, id := range providersOfClaims(m.claims) {
			p := b.want.providers[id]
			list = append(list, p)
			m.attempt.raised = append(m.attempt.raised, p.raisedBy(times[id]))
		}
		m.attempt.change = Change{Roots: roots(list...), Used: ids(list...), Added: addedBy(m.claims)}
	}
	return b.insertAllocations(ctx, b.store.allocationRows(all, b.want))
}

// raise adds to the generations of providers, which are locked.
func (b *claimBatch) raise(ctx context.Context, times map[provider.ID]int) error {
	number := map[sqldb.Dialect]string{sqldb.MySQL: "CAST(? AS SIGNED)", sqldb.PostgreSQL: "CAST(? AS INTEGER)"}
	for part := range sqldb.Chunks(padded(slices.Sorted(maps.Keys(times)))) {
		args, rows := []any{}, make([]any, len(part))
		for i, id := range part {
			rows[i] = b.want.providers[id].id
			args = append(args, rows[i], times[id])
		}
		query := "UPDATE resource_providers SET generation = generation + CASE id" +
			strings.Repeat(" WHEN ? THEN "+number[b.tx.Dialect], len(part)) + " END, updated_at = ? WHERE id IN (" +
			sqldb.Placeholders(len(part)) + ")"
		if _, err := b.tx.Exec(ctx, query, slices.Concat(args, []any{b.store.now()}, rows)...); err != nil {
			return err
		}
	}
	return nil
}

// insertAllocations inserts rows and sets the first one of each request, which shows later whether the transaction was
// committed.
func (b *claimBatch) insertAllocations(ctx context.Context, rows [][]any) error {
	first := map[resource.ConsumerID]int64{}
	for part := range sqldb.Chunks(rows) {
		query, values := insertStatement("allocations",
			"created_at, resource_provider_id, consumer_id, resource_class_id, used", part)
		err := sqldb.QueryEach(ctx, b.tx, query+" RETURNING consumer_id, id", values, func(rows *sql.Rows) error {
			var consumer resource.ConsumerID
			var id int64
			err := rows.Scan(&consumer, &id)
			first[consumer] = id
			return err
		})
		if err != nil {
			return err
		}
	}
	for _, m := range b.claims {
		consumer := m.claims[0].Consumer
		m.attempt.first = firstRow{first[consumer], consumer}
	}
	return nil
}

// keep leaves out the requests that is does not accept.
func (b *claimBatch) keep(is func(*batchMember) bool) {
	b.claims = slices.DeleteFunc(b.claims, func(m *batchMember) bool { return !is(m) })
}

// all lists the claims of all requests.
func (b *claimBatch) all() (list []Claim) {
	for _, m := range b.claims {
		list = append(list, m.claims...)
	}
	return list
}

func (b *claimBatch) providers() []provider.ID { return providersOfClaims(b.all()) }

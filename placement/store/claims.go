package store

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"strings"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

// PutAllocations replaces the allocations of all these consumers, or changes nothing: PUT and POST /allocations.
//
// It creates consumers, projects, users and consumer types that do not exist, and removes consumers without
// allocations. It raises the generations of the consumers and of the providers named in claims. It also raises those
// of providers that an empty claim releases, but not of providers that a claim replaces by others.
//
// Faults: Invalid: no such provider or class; Conflict placement.concurrent_update: a consumer has another
// generation, or too many concurrent writes; Conflict without a code: no inventory, or the amount does not fit, with
// the reason; Unavailable CodeUnknownOutcome: the connection was lost at COMMIT, and the outcome can no longer be
// determined from the consumers.
func (s *Store) PutAllocations(ctx context.Context, claims ...Claim) (change Change, err error) {
	claims, err = s.prepare(claims)
	if err != nil {
		return Change{}, fault.Wrap("", err)
	}
	a, err := untilKnown(ctx, s.db, func() (claimAttempt, error) { return s.attemptClaims(ctx, claims) },
		func(ctx context.Context, a claimAttempt) (outcome, error) { return s.findClaims(ctx, claims, a) })
	s.states.wrote(a.change.Roots, err != nil || replaces(a.known))
	return a.change, err
}

// replaces reports whether a consumer had allocations before a write.
func replaces(known map[resource.ConsumerID]consumerRow) bool {
	for _, c := range known {
		if len(c.providers) > 0 {
			return true
		}
	}
	return false
}

func (s *Store) tryClaims(ctx context.Context, claims []Claim) (a claimAttempt, err error) {
	err = s.writeClaims(ctx, "PutAllocations", func(tx *sqldb.Tx) error {
		s := s.withFixedClock()
		if err := s.checkTreeStates(ctx, tx, claims); err != nil {
			return err
		}
		ids := providersOfClaims(claims)
		all, err := s.raiseClaimed(ctx, tx, ids)
		if err != nil {
			return err
		}
		done, err := s.replaceAllocations(ctx, tx, claims)
		if err != nil {
			return err
		}
		if !all { // but replaceAllocations has found them
			return sqldb.Retry(concurrent("a resource provider changed at the same moment: read it again"))
		}
		change := Change{Roots: done.roots, Used: done.used}
		if !replaces(done.known) {
			change.Added = addedBy(claims)
		}
		a = claimAttempt{known: done.known, first: done.first, at: s.now(), change: change}
		for id, g := range done.touched {
			r := raisedProvider{id, g.id, g.generation + 1}
			if _, found := slices.BinarySearch(ids, id); found { // raiseClaimed has raised it before it was read
				r.after = g.generation
				delete(done.touched, id)
			}
			a.raised = append(a.raised, r)
		}
		return s.raise(ctx, tx, 1, slices.Collect(maps.Values(done.touched))...)
	})
	return a, err
}

// raiseClaimed raises the generations of the providers that claims name, and reports whether all of them exist. It
// runs before anything is read, so only one writer of a provider runs at a time, and a writer that waited sees the
// changes of the others. What a claim reads of its providers does not change until it ends.
func (s *Store) raiseClaimed(ctx context.Context, tx *sqldb.Tx, ids []provider.ID) (all bool, err error) {
	if err := tx.SeeCommits(ctx); err != nil {
		return false, err
	}
	taken := 0
	for part := range sqldb.Chunks(ids) {
		result, err := tx.Exec(
			ctx,
			"UPDATE resource_providers SET generation = generation + 1, updated_at = ? WHERE uuid IN ("+sqldb.Placeholders(
				len(part))+")",
			append([]any{s.now()}, sqldb.ToAny(part)...)...)
		if err != nil {
			return false, err
		}
		n, err := result.RowsAffected()
		if err != nil {
			return false, err
		}
		taken += int(n)
	}
	return taken == len(ids), nil
}

// prepare sorts claims, removes empty parts, sets missing owners and checks the amounts.
func (s *Store) prepare(claims []Claim) ([]Claim, error) {
	claims = slices.SortedFunc(slices.Values(claims),
		func(a, b Claim) int { return strings.Compare(string(a.Consumer), string(b.Consumer)) })
	for i := range claims {
		c := &claims[i]
		if i > 0 && c.Consumer == claims[i-1].Consumer {
			return nil, fault.New(fault.Invalid, "the consumer %s is named twice", c.Consumer)
		}
		if c.Project == "" {
			c.Project, c.User = s.IncompleteProject, s.IncompleteUser
		}
		if c.ConsumerType == unknownType {
			c.ConsumerType = ""
		}
		all := resource.Allocation{}
		for id, amounts := range c.Allocation {
			for class, n := range amounts {
				if n < 1 {
					return nil, fault.New(fault.Invalid,
						"the consumer %s asks for %d of %s on %s: an amount is 1 or more", c.Consumer, n, class, id)
				}
			}
			if len(amounts) > 0 {
				all[id] = amounts
			}
		}
		c.Allocation = all
	}
	return claims, nil
}

// checkedConsumers reads the consumers and compares their generations with those that the claims name.
func checkedConsumers(ctx context.Context, tx *sqldb.Tx,
	claims []Claim) (known map[resource.ConsumerID]consumerRow, err error) {
	if known, err = findConsumers(ctx, tx, consumersOfClaims(claims)); err != nil {
		return nil, err
	}
	return known, checkGenerations(claims, known)
}

// replacement is the effect of replaceAllocations. The generations of the touched providers are still to be raised.
type replacement struct {
	touched map[provider.ID]guarded
	roots   []provider.ID                       // of providers that are claimed or released
	used    []provider.ID                       // the providers that are claimed or released
	known   map[resource.ConsumerID]consumerRow // before the replacement
	first   firstRow
}

// replaceAllocations checks the claims and replaces the allocations of the consumers.
func (s *Store) replaceAllocations(ctx context.Context, tx *sqldb.Tx, claims []Claim) (done replacement, err error) {
	ids := consumersOfClaims(claims)
	known, err := checkedConsumers(ctx, tx, claims)
	if err != nil {
		return done, err
	}
	held := map[inventoryKey]int{}
	if replaces(known) {
		if held, err = heldBy(ctx, tx, ids); err != nil {
			return done, err
		}
		if err := execIn(ctx, tx, "DELETE FROM allocations WHERE consumer_id IN (%)", ids); err != nil {
			return done, err
		}
	}
	want, err := findTargets(ctx, tx, claims)
	if err != nil {
		return done, err
	}
	for key, amount := range held {
		if r := want.rooms[key]; r != nil {
			r.before += amount
		}
	}
	if err := want.fit(claims); err != nil {
		return done, err
	}
	if err := s.writeConsumers(ctx, tx, claims, known); err != nil {
		return done, err
	}
	rows := s.allocationRows(claims, want)
	first, err := insertFirst(ctx, tx, "allocations",
		"created_at, resource_provider_id, consumer_id, resource_class_id, used", rows)
	if err != nil {
		return done, err
	}
	done = summary(claims, want, known)
	if done.first.id = first; len(rows) > 0 {
		done.first.consumer = rows[0][2].(resource.ConsumerID)
	}
	return done, nil
}

func summary(claims []Claim, want claimTargets, known map[resource.ConsumerID]consumerRow) replacement {
	done := replacement{touched: map[provider.ID]guarded{}}
	all := slices.Collect(maps.Values(want.providers))
	for id, p := range want.providers {
		done.touched[id] = p.guard()
	}
	for _, claim := range claims {
		left := known[claim.Consumer].providers
		all = append(all, left...)
		for _, p := range left {
			if len(claim.Allocation) == 0 {
				done.touched[p.ID] = p.guard()
			}
		}
	}
	done.roots, done.used, done.known = roots(all...), ids(all...), known
	return done
}

// ids lists the IDs of providers, sorted, without duplicates.
func ids(list ...providerRow) []provider.ID {
	out := make([]provider.ID, len(list))
	for i, p := range list {
		out[i] = p.ID
	}
	return sortedSet(out)
}

// checkGenerations compares the generations of consumers with those that the claims name.
func checkGenerations(claims []Claim, known map[resource.ConsumerID]consumerRow) error {
	for _, claim := range claims {
		now, exists := known[claim.Consumer]
		switch {
		case !claim.Guarded:
		case !exists && claim.Generation != nil:
			return concurrent("the consumer %s does not exist, its generation is null, not %d: read it again",
				claim.Consumer, *claim.Generation)
		case exists && claim.Generation == nil:
			return concurrent("the consumer %s exists with generation %d, not null: read it again", claim.Consumer,
				now.generation)
		case exists && now.generation != *claim.Generation:
			return concurrent("the consumer %s has generation %d now, not %d: read it again", claim.Consumer,
				now.generation, *claim.Generation)
		}
	}
	return nil
}

// claimTargets are the database rows that claims name.
type claimTargets struct {
	providers map[provider.ID]providerRow
	classes   map[resource.Class]int64
	rooms     map[inventoryKey]*inventoryUsage
}

// inventoryUsage is one inventory with its usage.
type inventoryUsage struct {
	resource.Inventory
	used   int // grows with each claim that is granted
	before int // with the allocations that the claims replace
}

// inventoryKey is one class on one provider, by their ids.
type inventoryKey struct{ provider, class int64 }

// heldBy returns the sum of what consumers have allocated, by inventory.
func heldBy(ctx context.Context, tx *sqldb.Tx, consumers []resource.ConsumerID) (map[inventoryKey]int, error) {
	held := map[inventoryKey]int{}
	err := sqldb.QueryIn(ctx, tx,
		"SELECT resource_provider_id, resource_class_id, used FROM allocations WHERE consumer_id IN (%)", consumers,
		func(rows *sql.Rows) error {
			var key inventoryKey
			var used int
			err := rows.Scan(&key.provider, &key.class, &used)
			held[key] += used
			return err
		})
	return held, err
}

// readTargets reads providers with their inventories and usage, in one statement. Providers that do not exist are left
// out.
func readTargets(ctx context.Context, tx *sqldb.Tx, ids []provider.ID) (claimTargets, error) {
	want := claimTargets{map[provider.ID]providerRow{}, map[resource.Class]int64{}, map[inventoryKey]*inventoryUsage{}}
	err := sqldb.QueryIn(ctx, tx,
		"SELECT p.id, p.uuid, COALESCE(p.name, ''), COALESCE(p.generation, 0), r.uuid, k.id, COALESCE(k.name, ''), "+
			"COALESCE(i.total, 0), COALESCE(i.reserved, 0), COALESCE(i.min_unit, 0), COALESCE(i.max_unit, 0), "+
			"COALESCE(i.step_size, 0), COALESCE(i.allocation_ratio, 0), "+
			"COALESCE((SELECT SUM(a.used) FROM allocations a WHERE a.resource_provider_id = i.resource_provider_id "+
			"AND a.resource_class_id = i.resource_class_id), 0) "+
			"FROM resource_providers p JOIN resource_providers r ON r.id = p.root_provider_id LEFT JOIN "+
			"inventories i ON i.resource_provider_id = p.id "+
			"LEFT JOIN resource_classes k ON k.id = i.resource_class_id WHERE p.uuid IN (%)", ids,
		func(rows *sql.Rows) error {
			var p providerRow
			var number sql.NullInt64
			var class resource.Class
			var r inventoryUsage
			err := rows.Scan(&p.id, &p.ID, &p.Name, &p.Generation, &p.Root, &number, &class,
				&r.Total, &r.Reserved, &r.MinUnit, &r.MaxUnit, &r.StepSize, &r.AllocationRatio, &r.used)
			r.before = r.used
			if want.providers[p.ID] = p; number.Valid {
				want.classes[class] = number.Int64
				want.rooms[inventoryKey{p.id, number.Int64}] = &r
			}
			return err
		})
	return want, err
}

// findTargets reads the providers and the classes that claims name.
func findTargets(ctx context.Context, tx *sqldb.Tx, claims []Claim) (claimTargets, error) {
	ids := providersOfClaims(claims)
	want, err := readTargets(ctx, tx, ids)
	asNamed(want.providers, ids)
	if err == nil {
		err = unknownNames("resource provider", ids, want.providers)
	}
	if err != nil {
		return want, err
	}
	var more []resource.Class // classes that no provider has inventory of
	for _, c := range claims {
		for _, amounts := range c.Allocation {
			for class := range amounts {
				if _, ok := want.classes[class]; !ok {
					more = append(more, class)
				}
			}
		}
	}
	numbers, err := classNumbers(ctx, tx, sortedSet(more))
	maps.Copy(want.classes, numbers)
	return want, err
}

// fit checks the claims in order; each one counts as granted when the next is checked. An inventory may be used above
// its capacity, but not above the use before the claims.
func (want claimTargets) fit(claims []Claim) error {
	for _, claim := range claims {
		for _, id := range slices.Sorted(maps.Keys(claim.Allocation)) {
			p, amounts := want.providers[id], claim.Allocation[id]
			for _, class := range amounts.Sorted() {
				r := want.rooms[inventoryKey{p.id, want.classes[class]}]
				if r == nil {
					return fault.New(fault.Conflict, "the resource provider %s (%s) has no inventory of %s", p.Name,
						id, class)
				}
				if no := r.Refuse(r.before, r.used, amounts[class]); no != "" {
					return fault.New(fault.Conflict, "%s on the resource provider %s (%s): consumer %s %s", class,
						p.Name, id, claim.Consumer, no)
				}
				r.used += amounts[class]
			}
		}
	}
	return nil
}

// grant counts claims as granted if they fit; otherwise it changes nothing and returns the refusal. known is false if
// a claim names a class that none of the providers has.
func (want claimTargets) grant(claims []Claim) (known bool, refusal error) {
	before := map[*inventoryUsage]int{}
	for _, claim := range claims {
		for id, amounts := range claim.Allocation {
			for class := range amounts {
				number, known := want.classes[class]
				if !known {
					return false, nil
				}
				if r := want.rooms[inventoryKey{want.providers[id].id, number}]; r != nil {
					before[r] = r.used
				}
			}
		}
	}
	if refusal = want.fit(claims); refusal != nil {
		for r, used := range before {
			r.used = used
		}
	}
	return true, refusal
}

func (s *Store) allocationRows(claims []Claim, want claimTargets) (rows [][]any) {
	for _, claim := range claims {
		for _, id := range slices.Sorted(maps.Keys(claim.Allocation)) {
			amounts := claim.Allocation[id]
			for _, class := range amounts.Sorted() {
				rows = append(rows,
					[]any{s.now(), want.providers[id].id, claim.Consumer, want.classes[class], amounts[class]})
			}
		}
	}
	return rows
}

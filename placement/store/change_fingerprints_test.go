package store

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

// testFingerprints checks that each kind of write changes the fingerprint of its bucket and the fingerprint of all
// providers, that they are unchanged without a write, and that the provider versions match the rows.
func testFingerprints(t *testing.T, s *Store) {
	ctx := t.Context()
	host(t, s, 1, 0)
	host(t, s, 2, 1)
	host(t, s, 3, 0)
	host(t, s, 4, 0)
	ok(t, putOne(ctx, s, claim(500, 2, 4)))
	ok(t, putOne(ctx, s, claim(501, 2, 1)))
	_, err := s.ReplaceAggregates(ctx, id(3), nil, []resource.AggregateID{aggregate(900), aggregate(903)})
	ok(t, err)
	_, err = s.ReplaceAggregates(ctx, id(2), nil, []resource.AggregateID{aggregate(901), aggregate(902)})
	ok(t, err)
	sets := func(n int, aggregates ...int) func() error {
		var list []resource.AggregateID
		for _, a := range aggregates {
			list = append(list, aggregate(a))
		}
		return func() error { _, err := s.ReplaceAggregates(ctx, id(n), nil, list); return err }
	}
	move := func(n, parent int) func() error {
		to := Update{Name: fmt.Sprint("p", n), Move: true, Free: true}
		if parent > 0 {
			to.Parent = id(parent)
		}
		return func() error { _, _, err := s.UpdateProvider(ctx, id(n), to); return err }
	}
	for _, c := range []struct {
		what string
		do   func() error
	}{
		{"a claim", func() error { return putOne(ctx, s, claim(502, 1, 1)) }},
		{"a deleted claim", func() error { _, err := s.DeleteAllocations(ctx, consumer(501)); return err }},
		{"an inventory", func() error {
			_, err := s.ReplaceInventories(ctx, id(3), 1, inventory{"VCPU": resource.Whole(11)})
			return err
		}},
		{"a trait", func() error {
			_, _, err := s.ReplaceTraits(ctx, id(3), generation(t, s, 3), []resource.Trait{"HW_CPU_X86_VMX"})
			return err
		}},
		{"an aggregate without generation", sets(3, 900)},
		{"another aggregate instead", sets(3, 904)},
		{"aggregates exchanged", func() error { ok(t, sets(3, 901, 902)()); return sets(2, 904)() }},
		{"a move under another", move(3, 2)},
		{"a move within the tree", move(3, 1)},
		{"a second child", move(4, 2)},
		{"two providers that exchange their parents", func() error { ok(t, move(3, 2)()); return move(4, 1)() }},
		{"a move out", move(4, 0)},
		{"a new provider", func() error { host(t, s, 5, 0); return nil }},
		{"a provider deleted", func() error { _, err := s.DeleteProvider(ctx, id(5)); return err }},
		{"one deleted and an equal one created", func() error {
			host(t, s, 6, 0)
			before := fingerprintsOf(t, s)
			_, err := s.DeleteProvider(ctx, id(6))
			ok(t, err)
			host(t, s, 7, 0)
			if maps.Equal(before, fingerprintsOf(t, s)) {
				t.Error("one deleted and an equal one created: no fingerprint changed")
			}
			return err
		}},
	} {
		before := fingerprintsOf(t, s)
		if again := fingerprintsOf(t, s); !maps.Equal(before, again) {
			t.Fatalf("without a write the fingerprints changed from %v to %v", before, again)
		}
		ok(t, c.do())
		after := fingerprintsOf(t, s)
		for at := range after {
			if before[at] == after[at] {
				t.Errorf("%s: fingerprint %d is unchanged: %+v", c.what, at, after[at])
			}
		}
		checkProviderVersions(t, s)
	}
}

// fingerprintsOf returns the fingerprints of all buckets, and that of all providers as number -1.
func fingerprintsOf(t *testing.T, s *Store) map[Bucket]Fingerprint {
	t.Helper()
	parts, whole := must(s.Fingerprints(t.Context(), false)), must(s.Fingerprints(t.Context(), true))
	equal(t, "fingerprint of all providers", parts.Sum(), whole.Buckets[0])
	equal(t, "names", fmt.Sprint(parts.Classes, parts.Traits), fmt.Sprint(whole.Classes, whole.Traits))
	parts.Buckets[-1] = whole.Buckets[0]
	return parts.Buckets
}

// checkProviderVersions compares the provider versions of all buckets with the rows.
func checkProviderVersions(t *testing.T, s *Store) {
	t.Helper()
	prints, rows := must(s.Fingerprints(t.Context(), false)), allRows(t, s)
	found := must(s.ProviderVersions(t.Context(), slices.Collect(maps.Keys(prints.Buckets))...))
	versions := map[provider.ID]ProviderVersion{}
	for at, list := range found {
		equal(t, "providers", len(list), prints.Buckets[at].Providers)
		for _, m := range list {
			slices.Sort(m.Aggregates)
			versions[m.ID] = m
		}
	}
	equal(t, "versions", len(versions), len(rows))
	for _, r := range rows {
		used := 0
		for _, n := range r.Used {
			used += n
		}
		equal(t, "version", versions[r.ID], ProviderVersion{
			ID:         r.ID,
			Parent:     r.Parent,
			Root:       r.Root,
			Name:       r.Name,
			Generation: r.Generation,
			Used:       used,
			Aggregates: r.Aggregates,
		})
	}
}

// testBuckets checks that a change of a provider changes only the fingerprint of its bucket.
func testBuckets(t *testing.T, s *Store) {
	const count = 3 << bucketBits
	ok(t, s.db.Write(t.Context(), func(tx *sqldb.Tx) error {
		var rows [][]any
		for n := 1; n <= count; n++ {
			rows = append(rows, []any{s.now(), n, id(n), fmt.Sprint("p", n), 0, n})
		}
		for _, row := range rows { // one by one: each is its own root, and the foreign key is checked at each statement
			if err := insert(t.Context(), tx, "resource_providers", "created_at, id, uuid, name, generation, "+
				"root_provider_id", [][]any{row}); err != nil {
				return err
			}
		}
		return nil
	}))
	before := must(s.Fingerprints(t.Context(), false)).Buckets
	equal(t, "buckets", slices.Sorted(maps.Keys(before)), []Bucket{0, 1, 2, 3})
	_, err := s.ReplaceInventories(t.Context(), id(100), 0, inventory{"VCPU": resource.Whole(10)})
	ok(t, err)
	after := must(s.Fingerprints(t.Context(), false)).Buckets
	for at := range after {
		if changed := before[at] != after[at]; changed != (at == 100>>bucketBits) {
			t.Errorf("bucket %d: changed %t", at, changed)
		}
	}
	found := must(s.ProviderVersions(t.Context(), 3, 0, 7, 2, 3))
	equal(t, "versions", []int{len(found), len(found[0]), len(found[2]), len(found[3]), len(found[7])},
		[]int{4, 63, 64, 1, 0})
	equal(t, "last provider", found[3][0].ID, id(count))
}

func TestNumberRanges(t *testing.T) {
	equal(t, "ranges", numberRanges([]Bucket{5, 0, 2, 1, 5, 7}), []numberRange{{0, 191}, {320, 383}, {448, 511}})
	equal(t, "ranges of no buckets", numberRanges(nil), []numberRange(nil))
}

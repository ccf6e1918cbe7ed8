package store

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

// ProviderVersion distinguishes the states of a provider: all values that a Fingerprint sums up, and the name.
type ProviderVersion struct {
	ID, Parent, Root provider.ID
	Name             string
	Generation       int
	Used             int                    // of all classes together
	Aggregates       []resource.AggregateID // unsorted
}

// ProviderVersions reads the versions of all providers in these buckets in one snapshot. A bucket without providers
// has an empty list.
func (s *Store) ProviderVersions(ctx context.Context,
	stretches ...Bucket) (all map[Bucket][]ProviderVersion, err error) {
	err = s.read(ctx, "Marks", func(tx *sqldb.Tx) error {
		all = make(map[Bucket][]ProviderVersion, len(stretches))
		for _, at := range stretches {
			all[at] = nil
		}
		for part := range sqldb.Chunks(numberRanges(stretches)) {
			if err := readVersions(ctx, tx, part, all); err != nil {
				return err
			}
		}
		return nil
	})
	return all, err
}

// numberRange is a range of provider ids, first and last included.
type numberRange struct{ first, last int64 }

// numberRanges returns the ids of buckets; adjacent buckets are merged.
func numberRanges(stretches []Bucket) (list []numberRange) {
	for _, at := range sortedSet(stretches) {
		first := int64(at) << bucketBits
		last := first + 1<<bucketBits - 1
		if n := len(list); n > 0 && list[n-1].last+1 == first {
			list[n-1].last = last
		} else {
			list = append(list, numberRange{first, last})
		}
	}
	return list
}

func readVersions(ctx context.Context, tx *sqldb.Tx, part []numberRange, all map[Bucket][]ProviderVersion) error {
	where := func(column string) string {
		return " WHERE " + strings.TrimSuffix(strings.Repeat(column+" BETWEEN ? AND ? OR ", len(part)), " OR ")
	}
	var args []any
	for _, s := range part {
		args = append(args, s.first, s.last)
	}
	var numbers []int64
	var versions []ProviderVersion
	err := sqldb.QueryEach(ctx, tx,
		"SELECT p.id, p.uuid, COALESCE(p.name, ''), COALESCE(p.generation, 0), COALESCE(r.uuid, p.uuid), "+
			"COALESCE(q.uuid, '') "+
			"FROM resource_providers p LEFT JOIN resource_providers r ON r.id = p.root_provider_id "+
			"LEFT JOIN resource_providers q ON q.id = p.parent_provider_id"+where("p.id")+" ORDER BY p.id",
		args, func(rows *sql.Rows) error {
			var number int64
			var m ProviderVersion
			err := rows.Scan(&number, &m.ID, &m.Name, &m.Generation, &m.Root, &m.Parent)
			numbers, versions = append(numbers, number), append(versions, m)
			return err
		})
	if err != nil {
		return err
	}
	at := func(number int64) *ProviderVersion {
		if i, ok := slices.BinarySearch(numbers, number); ok {
			return &versions[i]
		}
		// rows without a provider exist on SQLite and MariaDB, where no foreign key forbids them
		return &ProviderVersion{}
	}
	err = sqldb.QueryEach(ctx, tx, "SELECT resource_provider_id, SUM(used) FROM allocations"+where("resource_provider_id")+
		" GROUP BY resource_provider_id", args, func(rows *sql.Rows) error {
		var number int64
		var used int
		err := rows.Scan(&number, &used)
		at(number).Used = used
		return err
	})
	if err != nil {
		return err
	}
	err = sqldb.QueryEach(ctx, tx,
		"SELECT x.resource_provider_id, a.uuid FROM resource_provider_aggregates x JOIN placement_aggregates a ON "+
			"a.id = x.aggregate_id"+
			where("x.resource_provider_id"), args, func(rows *sql.Rows) error {
			var number int64
			var aggregate resource.AggregateID
			err := rows.Scan(&number, &aggregate)
			m := at(number)
			m.Aggregates = append(m.Aggregates, aggregate)
			return err
		})
	for i, number := range numbers {
		all[Bucket(number>>bucketBits)] = append(all[Bucket(number>>bucketBits)], versions[i])
	}
	return err
}

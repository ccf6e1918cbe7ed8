package liveindex

import (
	"fmt"
	"strings"
	"testing"

	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

const (
	fleetHosts = 10_000
	perHost    = 27 // a root, 8 GPUs, 2 PFs with 8 VFs each
)

func number(n int) provider.ID { return provider.ID(fmt.Sprintf("00000000-0000-4000-8000-%012d", n)) }

// manyHosts fills a database with 10,000 hosts of 27 providers; half of them have allocations.
func manyHosts(b *testing.B, url string) *store.Store {
	b.Helper()
	db, err := sqldb.Open(b.Context(), url)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	s, err := store.Open(b.Context(), db)
	must(b, err)
	must(b, s.Sync(b.Context()))
	must(b, db.Write(b.Context(), func(tx *sqldb.Tx) error { return fillHosts(b, tx) }))
	return s
}

func fillHosts(b *testing.B, tx *sqldb.Tx) error {
	const step = 27 * 20
	for first := 1; first <= fleetHosts*perHost; first += step {
		var providers, inventories, allocations []string
		for n := first; n < first+step; n++ {
			root := (n-1)/perHost*perHost + 1
			parent := fmt.Sprint(root)
			if n == root {
				parent = "NULL"
			}
			providers = append(providers, fmt.Sprintf("(%d, '%s', 'host-%d-0000:3b:%d', 3, %d, %s)", n, number(n), root,
				n-root, root, parent))
			inventories = append(inventories, fmt.Sprintf("(%d, 0, 8, 0, 1, 8, 1, 1)", n))
			if n%2 == 0 {
				allocations = append(allocations, fmt.Sprintf("(%d, '%s', 0, 1)", n, number(n)))
			}
		}
		for table, rows := range map[string][]string{
			"resource_providers (id, uuid, name, generation, root_provider_id, parent_provider_id)": providers,
			"inventories (resource_provider_id, resource_class_id, total, reserved, min_unit, max_unit, step_size, " +
				"allocation_ratio)": inventories,
			"allocations (resource_provider_id, consumer_id, resource_class_id, used)": allocations,
		} {
			if _, err := tx.Exec(b.Context(), "INSERT INTO "+table+" VALUES "+strings.Join(rows, ", ")); err != nil {
				return err
			}
		}
	}
	if tx.Dialect == sqldb.PostgreSQL { // the ids were inserted explicitly
		_, err := tx.Exec(b.Context(), "SELECT setval('resource_providers_id_seq', ?)", fleetHosts*perHost)
		return err
	}
	return nil
}

// BenchmarkPoll measures polls of a database of 10,000 hosts with 270,000 providers: without a change, after one claim
// of another process, and the first poll.
func BenchmarkPoll(b *testing.B) {
	for name, fresh := range map[string]func() string{
		"SQLite":     func() string { return databases.SQLite(b) },
		"MariaDB":    func() string { return databases.MariaDB(b, "--innodb-buffer-pool-size=1G").Database(b) },
		"PostgreSQL": func() string { return databases.PostgreSQL(b, "-c", "shared_buffers=512MB").Database(b) },
	} {
		b.Run(name, func(b *testing.B) {
			url := fresh()
			others := manyHosts(b, url)
			w := newWorldOn(b, url)
			poll := func(b *testing.B) { must(b, w.syncer.Poll(b.Context())) }
			b.Run("first", func(b *testing.B) {
				for b.Loop() {
					w.syncer.seen = nil
					poll(b)
				}
			})
			poll(b)
			b.Run("unchanged", func(b *testing.B) {
				for b.Loop() {
					poll(b)
				}
			})
			b.Run("claim", func(b *testing.B) {
				for b.Loop() {
					b.StopTimer()
					id := resource.ConsumerID(number(900_000))
					claim := store.Claim{Consumer: id, Project: "p", User: "u",
						Allocation: resource.Allocation{number(4711): {"VCPU": 1}}}
					if _, err := others.PutAllocations(b.Context(), claim); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
					poll(b)
				}
			})
		})
	}
}

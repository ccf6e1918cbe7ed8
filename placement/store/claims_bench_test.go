package store

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// durable returns the databases with settings that keep committed data when the machine loses power.
func durable(b *testing.B) map[string]func() string {
	return map[string]func() string{
		"SQLite": func() string { return databases.SQLite(b) },
		"MariaDB": func() string {
			return databases.MariaDB(b, "--innodb-flush-log-at-trx-commit=1", "--innodb-flush-method=O_DIRECT",
				"--innodb-doublewrite=1").
				Database(b)
		},
		"PostgreSQL": func() string { return databases.PostgreSQL(b, "-c", "fsync=on").Database(b) },
	}
}

// BenchmarkClaims measures 32 concurrent writers, which claim random hosts for new consumers and delete every other
// claim. One operation is one successful claim.
func BenchmarkClaims(b *testing.B) {
	for name, url := range durable(b) {
		for _, hosts := range []int{1000, 10} {
			b.Run(fmt.Sprintf("%s/hosts=%d", name, hosts), func(b *testing.B) {
				claims(b, openBench(b, url()), hosts)
			})
		}
	}
}

func openBench(b *testing.B, url string) *Store {
	b.Helper()
	db := openDB(b, url)
	s, err := Open(b.Context(), db)
	ok(b, err)
	ok(b, s.Sync(b.Context()))
	return s
}

func claims(b *testing.B, s *Store, hosts int) {
	ctx := b.Context()
	for n := range hosts {
		_, _, err := s.CreateProvider(ctx, id(n), fmt.Sprint("p", n), "")
		ok(b, err)
		_, err = s.ReplaceInventories(ctx, id(n), 0,
			inventory{"VCPU": resource.Whole(1 << 20), "MEMORY_MB": resource.Whole(1 << 30)})
		ok(b, err)
	}
	var next, conflicts atomic.Int64
	var all sync.WaitGroup
	b.ResetTimer()
	for range 32 {
		all.Go(func() {
			for {
				n := int(next.Add(1))
				if n > b.N {
					return
				}
				c := Claim{
					Consumer:     consumer(n),
					Guarded:      true,
					Project:      "project",
					User:         "user",
					ConsumerType: "INSTANCE",
					Allocation:   resource.Allocation{provider.ID(id(rand.IntN(hosts))): {"VCPU": 1, "MEMORY_MB": 16}},
				}
				for {
					err := putOne(ctx, s, c)
					if err == nil {
						break
					}
					if !fault.Is(err, fault.Conflict) {
						b.Error(err)
						return
					}
					conflicts.Add(1)
				}
				if n%2 == 0 {
					if _, err := s.DeleteAllocations(ctx, c.Consumer); err != nil {
						b.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "claims/s")
	b.ReportMetric(float64(conflicts.Load()), "conflicts")
}

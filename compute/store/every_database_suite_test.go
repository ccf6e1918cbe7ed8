package store_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/sqldb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// TestStoreOnEveryDatabase runs the suite on every database.
func TestStoreOnEveryDatabase(t *testing.T) {
	databases.Each(t, func(t *testing.T, fresh func(testing.TB) string) {
		for _, c := range []struct {
			name string
			run  func(t *testing.T, s *store.Store)
		}{
			{"flavors", flavors}, {"extra specs", extraSpecs}, {"all fields of a server", roundTrip}, {"changes", changes},
			{"concurrent changes", concurrentChanges}, {"lists", lists}, {"pages", pages},
			{"sums", sums}, {"unfinished", unfinished}, {"purge", purge},
			{"hosts", hosts}, {"assignments", assignments}, {"residences during a move", residencesDuringMove},
			{"subscriptions", subscriptions}, {"reports", reports},
			{"clean requests", cleanRequests}, {"forget a host", forgetHost},
			{"disabled hosts", disabledHosts}, {"disabled devices", disabledDevices}, {"bindings of hosts", bindings},
			{"key pairs", keyPairs}, {"epochs", epochs}, {"removals", removals},
			{"quotas", quotaLimits}, {"quotas of claims", quotaOfClaims}, {"quota of key pairs", quotaOfKeyPairs},
			{"aggregates", aggregates}, {"aggregates of 16 clients", aggregatesOfClients},
			{"zones during claims", zonesDuringClaims}, {"migrations of 16 servers", migrationsOfServers},
			{"large numbers", largeNumbers}, {"long texts", longTexts},
			{"server groups", serverGroups}, {"policies of server groups", groupPolicies},
			{"server groups of 64 clients", groupRaces}, {"server groups of users", groupLimitsOfUsers},
		} {
			t.Run(c.name, func(t *testing.T) { c.run(t, open(t, fresh(t))) })
		}
		t.Run("listed servers", func(t *testing.T) {
			url := fresh(t)
			listedServers(t, open(t, url), openAgain(t, url))
		})
		t.Run("quotas of 64 clients", func(t *testing.T) {
			first, second := openTwice(t, fresh(t))
			quotaRaces(t, first, second)
		})
	})
}

// open returns a store on the database with this URL.
func open(t *testing.T, url string) *store.Store {
	t.Helper()
	db, err := sqldb.Open(t.Context(), url)
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	_, err = store.Open(t.Context(), db)
	must(t, err)
	s, err := store.Open(t.Context(), db) // the tables exist on the second start
	must(t, err)
	return s
}

// admitted lets every agent report.
func admitted(schedule.Host) error { return nil }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// is checks the kind of an error.
func is(t *testing.T, err error, kind fault.Kind) {
	t.Helper()
	if !fault.Is(err, kind) {
		t.Errorf("got %v, want a fault: %s", err, kind)
	}
}

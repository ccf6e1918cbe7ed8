package store_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/store"
)

// migrationsOfServers begins a migration of each of 16 servers at the same time, as an evacuation of a host does. Each
// has a number of its own, so pages of one list all.
func migrationsOfServers(t *testing.T, s *store.Store) {
	ctx := t.Context()
	var all sync.WaitGroup
	for i := range 16 {
		id := fmt.Sprint("s", i)
		must(t, s.Create(ctx, lifecycle.Server{ID: id, State: lifecycle.Active, Created: noon, Updated: noon}))
		all.Go(func() {
			_, err := s.Change(ctx, id, func(v lifecycle.Server) lifecycle.Server {
				v.Migration = &lifecycle.Migration{ID: "m-" + id, Kind: lifecycle.Evacuating, Status: "queued",
					Begun: noon, Updated: noon}
				return v
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	seen, numbers := map[string]bool{}, map[int64]string{}
	for marker := ""; ; {
		list, err := s.Migrations(ctx, store.MigrationFilter{Limit: 1, Marker: marker})
		must(t, err)
		if len(list) == 0 {
			break
		}
		m := list[0]
		if other := numbers[m.Number]; other != "" {
			t.Errorf("migrations %s and %s have the number %d", m.ID, other, m.Number)
		}
		seen[m.ID], numbers[m.Number], marker = true, m.ID, m.ID
	}
	if len(seen) != 16 {
		t.Errorf("pages list %d migrations of 16", len(seen))
	}
}

package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/network/operations"
	"github.com/openberth/berth/network/store"
	"github.com/openberth/berth/sqldb"
)

// BenchmarkPorts reads ports of a network service with 1,000 networks and 3,000 ports on SQLite: one by its id, those
// of one server, a page of ten, and all.
func BenchmarkPorts(b *testing.B) {
	db, err := sqldb.Open(b.Context(), databases.SQLite(b))
	must(b, err)
	b.Cleanup(func() { must(b, db.Close()) })
	st, err := store.Open(b.Context(), db)
	must(b, err)
	ids := storePorts(b, st)
	handler := New(Options{Operations: operations.New(st, nil), Options: edge.Options{Authenticate: identity.NoAuth2}})
	for name, path := range map[string]string{"one": "/v2.0/ports/" + ids[1500], "ofServer": "/v2.0/ports?device_id=s7",
		"page": "/v2.0/ports?limit=10", "all": "/v2.0/ports"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				r := httptest.NewRequest(http.MethodGet, path, nil)
				r.Header.Set("X-Auth-Token", "admin")
				w := httptest.NewRecorder()
				if handler.ServeHTTP(w, r); w.Code != http.StatusOK {
					b.Fatal(w.Body)
				}
			}
		})
	}
}

// storePorts writes 1,000 networks with three ports each, and returns the ids of the ports.
func storePorts(b *testing.B, st *store.Store) (ids []string) {
	b.Helper()
	must(b, st.Write(b.Context(), func(tx *store.Tx) error {
		ids = nil
		for n := range 1000 {
			network := store.Network{Base: store.Base{ID: store.NewUUID(), Name: fmt.Sprintf("net-%d", n)}, AdminUp: true}
			if err := store.Put(b.Context(), tx, &network); err != nil {
				return err
			}
			for i := range 3 {
				p := store.Port{Base: store.Base{ID: store.NewUUID()}, Network: network.ID, AdminUp: true,
					MAC: fmt.Sprintf("fa:16:3e:00:%02x:%02x", n/85, n%85*3+i), Device: fmt.Sprintf("s%d", n),
					FixedIPs: []store.FixedIP{{Subnet: network.ID, Address: fmt.Sprintf("10.0.0.%d", i+2)}}}
				if err := tx.PutPort(b.Context(), &p); err != nil {
					return err
				}
				ids = append(ids, p.ID)
			}
		}
		return nil
	}))
	return ids
}

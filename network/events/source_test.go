package events

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/openberth/berth/api/eventstream"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/network/store"
	"github.com/openberth/berth/sqldb"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, url string) *store.Store {
	t.Helper()
	db, err := sqldb.Open(t.Context(), url)
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	s, err := store.Open(t.Context(), db)
	must(t, err)
	return s
}

// replica is the state of a client that gets all changes.
type replica map[eventstream.Key]string

// apply applies the changes of a source, as a client does that reads a Log, and returns their number.
func (r replica) apply(t *testing.T, s *Source) int {
	t.Helper()
	changes, err := s.Changes(t.Context())
	must(t, err)
	for key, o := range changes {
		if o == nil {
			delete(r, key)
			continue
		}
		text, err := json.Marshal([]any{o.Data, o.Own, o.Host, o.Project})
		must(t, err)
		r[key] = string(text)
	}
	return len(changes)
}

// TestChangesOfTwoProcesses changes networks and ports at random through two stores on one database. Whenever changes
// were read, the client has what a new Source on a third store returns. Without a change nothing is returned.
func TestChangesOfTwoProcesses(t *testing.T) {
	databases.Each(t, func(t *testing.T, fresh func(testing.TB) string) {
		url, chance := fresh(t), rand.New(rand.NewPCG(7, 8))
		stores, third := []*store.Store{open(t, url), open(t, url)}, open(t, url)
		source, seen, most := NewSource(stores[0]), replica{}, 0
		source.Begin()
		for i := range 200 {
			change(t, stores[chance.IntN(2)], chance, i)
			if chance.IntN(3) > 0 {
				continue
			}
			seen.apply(t, source)
			again := NewSource(third)
			again.Begin()
			want := replica{}
			want.apply(t, again)
			if !reflect.DeepEqual(seen, want) {
				t.Fatalf("the client has\n%v\nthe database\n%v", seen, want)
			}
			if n := seen.apply(t, source); n > 0 {
				t.Errorf("%d changes without one", n)
			}
			most = max(most, len(seen))
		}
		if most < 8 {
			t.Errorf("at most %d objects", most)
		}
	})
}

// change creates, changes or deletes an object.
func change(t *testing.T, s *store.Store, chance *rand.Rand, i int) {
	t.Helper()
	base := store.Base{ID: fmt.Sprint("id", chance.IntN(6)), Project: "p", Name: fmt.Sprint("n", i)}
	must(t, s.Write(t.Context(), func(tx *store.Tx) error {
		switch chance.IntN(6) {
		case 0:
			return store.Delete[store.Port](t.Context(), tx, base.ID)
		case 1:
			return store.Delete[store.Network](t.Context(), tx, base.ID)
		case 2:
			return store.Put(t.Context(), tx, &store.Network{Base: base, Segments: []store.Segment{{Type: "vlan", ID: i}}})
		}
		return store.Put(t.Context(), tx, &store.Port{Base: base, Network: "id1", FixedIPs: []store.FixedIP{{Subnet: "s",
			Address: "192.0.2.1"}}, Binding: store.Binding{Host: fmt.Sprint("h", chance.IntN(3)), VNIC: "normal", VIF: "ovs"}})
	}))
}

// TestHiddenFromUsers has neither a host nor a segment in the documents for callers of a project.
func TestHiddenFromUsers(t *testing.T) {
	port := portObject(store.Port{Base: store.Base{ID: "a", Project: "p"},
		Binding:  store.Binding{Host: "h", VNIC: "normal"},
		Inactive: []store.InactiveBinding{{Binding: store.Binding{Host: "g"}}}})
	network := networkObject(store.Network{Base: store.Base{ID: "b", Project: "p"},
		Segments: []store.Segment{{Type: "vlan", PhysicalNetwork: "physnet", ID: 7}}})
	for want, o := range map[string]*eventstream.Object{
		`{"id":"a","name":"","project_id":"p","network_id":"","device_id":"","device_owner":"","status":"",` +
			`"admin_state_up":false,"mac_address":"","fixed_ips":[],"binding:vnic_type":"normal"}`: port,
		`{"id":"b","name":"","project_id":"p","admin_state_up":false,"shared":false,"router:external":false,` +
			`"mtu":0}`: network,
	} {
		if text, err := json.Marshal(o.Own); err != nil || string(text) != want {
			t.Errorf("got %s %v", text, err)
		}
	}
	if port.Host != "h" || network.Project != "p" {
		t.Errorf("got %+v, %+v", port, network)
	}
}

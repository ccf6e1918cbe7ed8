package operations

import (
	"context"
	"slices"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/network/store"
)

// TestGalera runs services on different nodes of one cluster. They create ports at the same time: each address is given
// once, and each service sees all ports. After one node is killed, the others continue; until the cluster has removed
// it, which takes a busy machine more than half a minute, they may answer that the client must try again.
func TestGalera(t *testing.T) {
	cluster := databases.Galera(t, 3)
	var services []*Service
	for _, url := range cluster.Database(t) {
		services = append(services, open(t, url, nil))
	}
	n, _ := newSubnet(t, services[0], "10.0.0.0/24")
	create := func(nodes, tries int) {
		t.Helper()
		for _, err := range parallel(tries, func(i int) (err error) {
			for range 4 {
				_, err = services[i%nodes].CreatePort(context.Background(), store.Port{Network: n.ID}, nil)
				if !fault.Is(err, fault.Unavailable) {
					break
				}
				t.Log("repeated:", err)
			}
			return err
		}) {
			if err != nil {
				t.Error(err)
			}
		}
		for _, s := range services[:nodes] {
			checkPorts(t, s)
		}
	}
	create(3, 30)
	cluster.Nodes[2].Kill(t)
	create(2, 10)
	list := checkPorts(t, services[0])
	if len(list) != 40 {
		t.Errorf("%d ports", len(list))
	}
	at := slices.IndexFunc(list, func(p store.Port) bool { return p.Number == firstRevision })
	must(t, services[1].DeletePort(t.Context(), list[at].ID, firstRevision))
	if _, err := Get[store.Port](t.Context(), services[0], list[at].ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("a port that was deleted on the other node: %v", err)
	}
}

// checkPorts checks that no two ports have an address or a MAC address in common. It returns all ports.
func checkPorts(t *testing.T, s *Service) (list []store.Port) {
	t.Helper()
	must(t, s.Store.Read(t.Context(), func(tx *store.Tx) (err error) {
		list, err = store.List[store.Port](t.Context(), tx, store.Filter{})
		return err
	}))
	seen := map[string]bool{}
	for _, p := range list {
		if ip := p.FixedIPs[0].Address; seen[ip] || seen[p.MAC] {
			t.Errorf("address %s or %s given twice", ip, p.MAC)
		}
		seen[p.FixedIPs[0].Address], seen[p.MAC] = true, true
	}
	return list
}

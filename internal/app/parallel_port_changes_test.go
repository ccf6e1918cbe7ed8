package app

import (
	"slices"
	"sync"
	"testing"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/internal/testenv"
)

// TestPortsAreAttachedInParallel attaches four ports to one server at the same time, of which one requests more than
// the host has, and then detaches the others without waiting. Each request has its own result.
func TestPortsAreAttachedInParallel(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	l := newPortsLab(t)
	defer l.down()
	s := l.create("ACTIVE", "none")
	ports := []network.Port{}
	for _, kbps := range []int{1000, 2000, 20000, 3000} { // the bridge has 10000
		ports = append(ports, l.port(l.policy(kbps)))
	}
	attached, errs := make([]string, len(ports)), make([]error, len(ports))
	var all sync.WaitGroup
	for i, p := range ports {
		all.Go(func() { attached[i], errs[i] = l.attach(s.ID, map[string]any{"port_id": p.ID}) })
	}
	all.Wait()
	for i, p := range ports {
		if i == 2 && errs[i] == nil || i != 2 && (errs[i] != nil || attached[i] != p.ID) {
			t.Errorf("port %d: %q, want %q; %v", i, attached[i], p.ID, errs[i])
		}
	}
	l.check(s.ID, 3, 6000)
	for _, p := range slices.Delete(slices.Clone(ports), 2, 3) {
		l.detach(s.ID, p.ID)
	}
	l.check(s.ID, 0, 0)
	l.until("no change of ports is left", func() bool { return !l.changesPort(s.ID) })
	for _, p := range ports {
		if now, err := l.cloud.NetworkClient().Port(t.Context(), p.ID); err != nil || now.Device != "" || now.Host != "" {
			t.Errorf("%+v %v", now, err)
		}
	}
	l.delete(s.ID)
}

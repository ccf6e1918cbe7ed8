package libvirt

import (
	"context"
	"strings"
	"testing"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/testenv"
)

// TestForcedMigration forces the completion of slow migrations: the guest is paused while it is copied. One that is
// aborted then runs on at its source; the other one continues at its destination.
func TestForcedMigration(t *testing.T) {
	t.Parallel()
	a, b := openPair(t)
	g := counting()
	g.Stopped = true
	must(t, a.Build(t.Context(), g))
	run(t, "qemu-io", "-c", "write -q -P 7 1M 6M", a.path(g.ID, diskName(0))) // slow to copy
	g.Stopped = false
	must(t, a.Build(t.Context(), g))
	n := a.count(t, g.ID, 3)
	a.o.Migration.Bandwidth = 1
	must(t, b.Receive(t.Context(), g))
	migrate := func(ctx context.Context) (paused <-chan struct{}, ended <-chan error) {
		force, stops, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go func() {
			done <- a.Migrate(ctx, g.ID, hypervisor.Destination{Host: b.name, Force: force})
		}()
		b.awaitIncoming(t, g.ID, true)
		close(force)
		go func() {
			defer close(stops)
			testenv.Until(t, "the guest is paused at its source", func() bool { return a.state(t, g.ID) == rpc.Paused })
		}()
		return stops, done
	}

	ctx, abort := context.WithCancel(t.Context())
	paused, ended := migrate(ctx)
	<-paused
	abort()
	if err := <-ended; !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "aborted") {
		t.Errorf("aborted: %v", err)
	}
	if departed, err := a.SettleMigration(t.Context(), g.ID); departed || err != nil {
		t.Errorf("after the abort: departed %t, %v", departed, err)
	}
	wantGuests(t, a.Driver, g)
	wantGuests(t, b.Driver)
	n = a.count(t, g.ID, n+5)

	b.awaitIncoming(t, g.ID, false)
	paused, ended = migrate(t.Context())
	<-paused
	must(t, <-ended)
	if departed, err := a.SettleMigration(t.Context(), g.ID); !departed || err != nil {
		t.Errorf("after its end: departed %t, %v", departed, err)
	}
	wantGuests(t, b.Driver, g)
	b.count(t, g.ID, n+5)
	must(t, a.Destroy(t.Context(), g.ID))
}

// state returns the state of the domain of a guest.
func (s site) state(t *testing.T, id string) rpc.State {
	c, _, err := s.connect(t.Context())
	if err != nil {
		t.Error(err)
		return 0
	}
	domains, _, err := s.list(t.Context(), c)
	found, _ := find(domains, id)
	if err != nil {
		t.Error(err)
		return 0
	}
	state, _, _ := c.State(t.Context(), found.Domain)
	return state
}

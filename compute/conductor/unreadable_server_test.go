package conductor

import (
	"context"
	"testing"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
)

// unreadableStore is a store in which the record of the server "bad" cannot be read.
type unreadableStore struct{ Store }

func (s unreadableStore) Read(ctx context.Context, id string) (lifecycle.Server, error) {
	if id == "bad" {
		return lifecycle.Server{}, fault.New(fault.Internal, "cannot read the record of server bad")
	}
	return s.Store.Read(ctx, id)
}

func (s unreadableStore) Change(ctx context.Context, id string,
	next func(lifecycle.Server) lifecycle.Server) (lifecycle.Server, error) {
	if _, err := s.Read(ctx, id); err != nil {
		return lifecycle.Server{}, err
	}
	return s.Store.Change(ctx, id, next)
}

// A server whose record cannot be read keeps no other one from being released on a dead host, reclaimed or offloaded.
func TestUnreadableServerStopsNoOther(t *testing.T) {
	long := time.Now().Add(-time.Hour).UTC()
	for name, c := range map[string]struct {
		before func(*lifecycle.Server)
		run    func(*Conductor) error
		want   lifecycle.State
	}{
		"dead host": {func(s *lifecycle.Server) { s.State = lifecycle.DeletingGuest },
			func(c *Conductor) error { return c.HostDown(t.Context(), "a") }, lifecycle.DeletingAllocation},
		"reclaimed": {func(s *lifecycle.Server) { s.SoftDeleted, s.Launched, s.Reported = long, long, true },
			func(c *Conductor) error { return c.Reclaim(t.Context()) }, lifecycle.DeletingGuest},
		"offloaded": {func(s *lifecycle.Server) {
			s.ShelvedAt, s.ShelvedImage = long, &lifecycle.ShelvedImage{ID: "i", SHA512: "sum"}
		}, func(c *Conductor) error { return c.Reclaim(t.Context()) }, lifecycle.Shelving},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := newCloud(t, map[string]int{"a": 4})
			cloud.agents.pause("a", true) // the agent of the host reports nothing here
			cloud.placed("bad", c.before)
			cloud.placed("good", c.before)
			config := quiet(t)
			config.ReclaimInterval, config.OffloadTime = time.Minute, time.Minute
			conductor := New(unreadableStore{cloud.store}, cloud.client(nil), config)
			if err := c.run(conductor); !fault.Is(err, fault.Internal) {
				t.Errorf("%v", err)
			}
			if s, err := cloud.store.Read(t.Context(), "good"); err != nil || s.State != c.want {
				t.Errorf("%s %v, want %s", s.State, err, c.want)
			}
		})
	}
}

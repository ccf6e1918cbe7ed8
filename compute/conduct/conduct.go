// Package conduct carries out the steps of servers: it asks Placement, lets the scheduler choose, claims and releases,
// over interfaces that it defines. Package saga drives it.
package conduct

import (
	"context"
	"time"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Placement is what conduct needs of a Placement service; *placement.Client is one.
type Placement interface {
	Candidates(ctx context.Context, ask resource.Ask) (placement.Candidates, error)
	Allocation(ctx context.Context, consumer resource.ConsumerID) (placement.Held, error)
	PutAllocation(ctx context.Context, consumer resource.ConsumerID, held placement.Held) error
	DeleteAllocation(ctx context.Context, consumer resource.ConsumerID) error
}

// Store is what conduct needs of the database; *store.Store is one.
type Store interface {
	Create(ctx context.Context, server lifecycle.Server) error
	Read(ctx context.Context, id string) (lifecycle.Server, error)
	Change(ctx context.Context, id string, next func(lifecycle.Server) lifecycle.Server) (lifecycle.Server, error)
	Unfinished(ctx context.Context, after string, limit int) ([]string, error)
	Reports(ctx context.Context, roots []provider.ID) (map[provider.ID]schedule.Host, error)
	Purge(ctx context.Context, before time.Time, keep int) error
}

var _ Store = (*store.Store)(nil)

// Conductor runs the lives of servers. The HTTP handlers give it what users and agents say.
type Conductor struct {
	store     Store
	placement Placement
}

// New makes a conductor. It does nothing by itself before Run.
func New(store Store, placement Placement) *Conductor {
	return &Conductor{store: store, placement: placement}
}

// Run resumes every server that was on its way and works until ctx ends; then it returns nil.
func (c *Conductor) Run(ctx context.Context) error { return nil }

// Create begins the life of a server and returns it as stored, in BUILD. fault.Conflict when its id is taken.
func (c *Conductor) Create(ctx context.Context, server lifecycle.Server) (lifecycle.Server, error) {
	return server, nil
}

// Delete begins the end of a server. Asking again is no error; fault.NotFound when there is none or it is deleted already.
func (c *Conductor) Delete(ctx context.Context, id string) error { return nil }

// Guest takes in what an agent tells of a server: one of the lifecycle.Guest… events. A server that is unknown or
// no longer on that host is no error: the agent learns from its assignments.
func (c *Conductor) Guest(ctx context.Context, id string, event lifecycle.Event) error { return nil }

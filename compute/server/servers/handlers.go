// Package servers holds the servers of the Compute API: how they are created, listed, shown, changed and deleted, with
// their metadata, their tags, and why a server is in its state. Each resource has its file, with its paths, its
// handlers and its views.
package servers

import (
	"context"
	"log/slog"
	"time"

	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/server/catalog"
	"github.com/openberth/berth/compute/server/networking"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
)

// Store is what the handlers need of the database; *store.Store implements it and documents its faults.
type Store interface {
	Read(ctx context.Context, id string) (lifecycle.Server, error)
	Change(ctx context.Context, id string, next func(lifecycle.Server) lifecycle.Server) (lifecycle.Server, error)
	ListServers(ctx context.Context, f store.ServerFilter) ([]lifecycle.Server, error)
	ServerRefs(ctx context.Context, f store.ServerFilter) ([]store.ServerRef, error)
	Host(ctx context.Context, name string) (schedule.Host, error)
	Dead(ctx context.Context) ([]string, error)
	ServerGroup(ctx context.Context, id string) (store.ServerGroup, error)
}

// Conductor creates and deletes servers; *conductor.Conductor implements it and documents its faults.
type Conductor interface {
	Create(ctx context.Context, servers ...lifecycle.Server) ([]lifecycle.Server, error)
	Delete(ctx context.Context, id string, by lifecycle.Caller) error
}

// Images is what the handlers need of an image service; *image.Client implements it. Methods return fault.NotFound for
// an image that the caller may not see, fault.Forbidden if the service rejects the token, and fault.Unavailable if
// the service does not answer.
type Images interface {
	Image(ctx context.Context, who identity.Identity, token, id string) (image.Image, error)
}

// Handlers are the handlers of the package, and what they need.
type Handlers struct {
	*request.Lookups
	Catalog    *catalog.Handlers
	Networking *networking.Handlers
	Store      Store
	Conductor  Conductor
	Images     Images // nil: imageRef is stored without a check

	ScheduleZone string // [DEFAULT] default_schedule_zone: of servers whose request names none; empty: any
	// [api] enable_instance_password is false: answers have no adminPass
	HidePasswords bool
	Log           *slog.Logger
	Now           func() time.Time
}

// details are the handlers that change a server without an action on its guest: its metadata and tags.
type details struct {
	Store   Store
	Catalog *catalog.Handlers
	Now     func() time.Time
}

// changeDetails reads the details of a server, passes them to change, and stores the result, in one transaction. change
// may be called more than once; if it returns an error nothing is stored, and the error is returned. It also gets the
// server, which it must not change.
func (s details) changeDetails(ctx context.Context, id string,
	change func(lifecycle.Server, *lifecycle.Details) error) (lifecycle.Server, error) {
	var refused error
	found, err := s.Store.Change(ctx, id, func(found lifecycle.Server) lifecycle.Server {
		if !found.Ended.IsZero() { // deleted since it was read
			refused = fault.New(fault.NotFound, "Instance %s could not be found.", id)
			return found
		}
		d := found.Details()
		if refused = change(found, &d); refused != nil {
			return found
		}
		return found.WithDetails(d, s.Now())
	})
	if err == nil {
		err = refused
	}
	return found, err
}

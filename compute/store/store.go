// Package store keeps compute's state in SQL: flavors, servers, and the last report of each host.
//
// A record of a server is kept as one JSON text, beside columns for what is asked about. In the transaction in
// which a server enters, leaves or changes in the assignments of a host, the revision of that host is raised; after it, those
// who follow the host are woken.
package store

import (
	"context"
	"time"

	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/sqldb"
)

// MaxPage is the largest number of rows that one listing returns.
const MaxPage = 1000

// Store is compute's database. It is safe for concurrent use.
type Store struct{ db *sqldb.DB }

// Open brings the tables up to date and returns the store. The database stays the caller's to close.
func Open(ctx context.Context, db *sqldb.DB) (*Store, error) { return &Store{db: db}, nil }

// ServerFilter says which servers to list, newest first.
type ServerFilter struct {
	Project string    // empty: of all projects
	Name    string    // a part of the name
	Host    string    // exactly
	Status  string    // BUILD, ACTIVE, ERROR or DELETED
	Flavor  string    // id
	Deleted bool      // list the deleted ones, and only them
	Since   time.Time // changed at or after this, the deleted ones included
	Marker  string    // id of the last server of the page before; fault Invalid when it does not exist
	Limit   int       // 0 or more than MaxPage: MaxPage
}

// FlavorFilter says which flavors to list, by id.
type FlavorFilter struct {
	All     bool // also those that are not public
	MinDisk int  // GiB
	MinRAM  int  // MiB
	Marker  string
	Limit   int
}

// Assignments are the servers that shall be on a host, by id.
type Assignments struct {
	Revision int64 // grows with each change; 0 for a host that never had a server
	Servers  []lifecycle.Server
}

// CreateFlavor stores a new flavor. fault.Conflict when its id or name is taken.
func (s *Store) CreateFlavor(ctx context.Context, f flavor.Flavor) error { return nil }

// Flavor reads a flavor by id; fault.NotFound.
func (s *Store) Flavor(ctx context.Context, id string) (flavor.Flavor, error) {
	return flavor.Flavor{}, nil
}

// Flavors lists flavors.
func (s *Store) Flavors(ctx context.Context, f FlavorFilter) ([]flavor.Flavor, error) {
	return nil, nil
}

// DescribeFlavor changes the description; fault.NotFound.
func (s *Store) DescribeFlavor(ctx context.Context, id, description string) error { return nil }

// DeleteFlavor removes a flavor; fault.NotFound. Servers keep their copy.
func (s *Store) DeleteFlavor(ctx context.Context, id string) error { return nil }

// SetExtraSpecs adds or overwrites extra specs; fault.NotFound when there is no such flavor.
func (s *Store) SetExtraSpecs(ctx context.Context, id string, specs map[string]string) error {
	return nil
}

// DeleteExtraSpec removes one extra spec; fault.NotFound when the flavor or the spec does not exist.
func (s *Store) DeleteExtraSpec(ctx context.Context, id, key string) error { return nil }

// Create stores a new server with revision 1; fault.Conflict when its id is taken.
func (s *Store) Create(ctx context.Context, server lifecycle.Server) error { return nil }

// Read reads a server by id, a deleted one too; fault.NotFound.
func (s *Store) Read(ctx context.Context, id string) (lifecycle.Server, error) {
	return lifecycle.Server{}, nil
}

// Servers lists servers.
func (s *Store) Servers(ctx context.Context, f ServerFilter) ([]lifecycle.Server, error) {
	return nil, nil
}

// Change stores what next makes of a server, in one transaction with reading it; fault.NotFound. next may run more than once.
func (s *Store) Change(ctx context.Context, id string, next func(lifecycle.Server) lifecycle.Server) (lifecycle.Server, error) {
	return lifecycle.Server{}, nil
}

// Unfinished lists, by id, servers after the given id that have steps to be done.
func (s *Store) Unfinished(ctx context.Context, after string, limit int) ([]string, error) {
	return nil, nil
}

// Purge forgets deleted servers: those that ended before the given time, and all but the newest keep.
func (s *Store) Purge(ctx context.Context, before time.Time, keep int) error { return nil }

// PutReport stores the last report of a host; Guests and Load are not part of it. Seen is the caller's to set.
func (s *Store) PutReport(ctx context.Context, host schedule.Host) error { return nil }

// Hosts lists the reports of all hosts, by name, without Guests and Load.
func (s *Store) Hosts(ctx context.Context) ([]schedule.Host, error) { return nil, nil }

// Host reads the report of one host by name, without Guests and Load; fault.NotFound.
func (s *Store) Host(ctx context.Context, name string) (schedule.Host, error) {
	return schedule.Host{}, nil
}

// Reports reads the reports of the hosts with these root providers and the guests placed on them, for the
// scheduler: a device whose holder is no longer there counts as available whatever the report says.
func (s *Store) Reports(ctx context.Context, roots []provider.ID) (map[provider.ID]schedule.Host, error) {
	return nil, nil
}

// Assignments reads what shall be on a host.
func (s *Store) Assignments(ctx context.Context, host string) (Assignments, error) {
	return Assignments{}, nil
}

// Follow gives a channel that receives after each change of a host's assignments; several changes may come as one. stop ends it.
func (s *Store) Follow(host string) (changed <-chan struct{}, stop func()) { return nil, nil }

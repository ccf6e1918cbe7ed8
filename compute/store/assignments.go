package store

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/sqldb"
)

// Assignments are the guests that must be on a host and those that must be removed from it, by consumer.
type Assignments struct {
	Cloud         string
	Epoch         Epoch // of this process
	Revision      int64 // grows with each change; 0 for a host that never had a server
	Entries       []*Entry
	Removals      []lifecycle.Removal
	CleanRequests []CleanRequest   // clean requests without an answer, by address
	Devices       []DisabledDevice // by address and id
}

// Assignments returns the assignments of a host. The lists and their entries are shared and must not be modified.
func (s *Store) Assignments(ctx context.Context, host string) (Assignments, error) {
	kept, done := s.assignments.read(host)
	out := Assignments{Cloud: s.cloud, Epoch: s.epoch}
	var now *hostAssignments
	err := s.db.Read(ctx, func(tx *sqldb.Tx) (err error) {
		if now, err = s.readAssignments(ctx, tx, host, kept); err != nil {
			return err
		}
		out.Revision, out.Entries = now.revision, now.entries
		const recorded = `SELECT consumer FROM compute_removals WHERE host = ? ORDER BY consumer`
		removals, err := sqldb.QueryTexts(ctx, tx, recorded, host)
		if err != nil {
			return err
		}
		out.Removals = now.removalsWith(host, removals)
		out.CleanRequests, err = readCleanRequests(ctx, tx, ` WHERE host = ? AND refused = '' ORDER BY address`, host)
		if err != nil {
			return err
		}
		out.Devices, err = readDisabledDevices(ctx, tx, ` WHERE host = ? ORDER BY address, id`, host)
		return err
	})
	if err != nil {
		now = nil
	}
	done(now)
	return out, wrap(err)
}

// readAssignments reads the entries and removals of a host that follow from the records of servers. Of the servers in
// kept it reads those that have changed; kept may be nil.
func (s *Store) readAssignments(ctx context.Context, tx *sqldb.Tx, host string, kept *hostAssignments) (
	*hostAssignments, error) {
	revision, err := readRevision(ctx, tx, host)
	if err != nil {
		return nil, err
	}
	if kept == nil || !kept.known || kept.revision != revision && len(kept.changed) == 0 {
		const onHost = ` WHERE id IN (SELECT server FROM compute_residences WHERE host = ?) ORDER BY id`
		servers, err := s.servers.readServers(ctx, tx, true, onHost, host)
		now := &hostAssignments{revision: revision}
		for _, server := range servers {
			now.add(host, server)
		}
		return now, err
	}
	now := kept
	for _, id := range slices.Sorted(maps.Keys(kept.changed)) {
		server, err := s.servers.readServer(ctx, tx, id, true)
		if fault.Is(err, fault.NotFound) { // purged, or never created
			server, err = lifecycle.Server{ID: id}, nil
		}
		if err != nil {
			return nil, err
		}
		now = now.with(host, server)
	}
	return &hostAssignments{revision: revision, entries: now.entries, removals: now.removals}, nil
}

// readRevision returns the revision of a host's assignments; 0 if it never had a server.
func readRevision(ctx context.Context, tx *sqldb.Tx, host string) (revision int64, err error) {
	err = tx.QueryRow(ctx, `SELECT revision FROM compute_hosts WHERE name = ?`, host).Scan(&revision)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return revision, err
}

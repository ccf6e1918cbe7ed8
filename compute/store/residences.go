package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"maps"
	"reflect"
	"slices"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/sqldb"
)

// deviceCount returns the number of PCI devices and NUMA cells of a consumer. 0 means that the scheduler can ignore it.
func deviceCount(requests []pci.Request, cells []numa.GuestCell) int {
	n := len(cells)
	for _, r := range requests {
		n += r.Count
	}
	return n
}

// saveResidences writes the rows that follow from a changed record: its residences, removals, migration, and what it
// counts against quotas.
func (s *Store) saveResidences(ctx context.Context, tx *sqldb.Tx, before, after lifecycle.Server) error {
	if err := saveUse(ctx, tx, before, after); err != nil {
		return err
	}
	if err := recordRemovals(ctx, tx, before, after); err != nil {
		return err
	}
	if old, now := residenceRows(before), residenceRows(after); !maps.Equal(old, now) {
		if len(old) > 0 {
			if _, err := tx.Exec(ctx, `DELETE FROM compute_residences WHERE server = ?`, after.ID); err != nil {
				return err
			}
		}
		for _, consumer := range slices.Sorted(maps.Keys(now)) {
			if _, err := tx.Exec(ctx, `INSERT INTO compute_residences (consumer, server, host, devices) VALUES (?, ?, ?, ?)`,
				consumer, after.ID, now[consumer].host, now[consumer].devices); err != nil {
				return err
			}
		}
	}
	if after.Migration == nil || reflect.DeepEqual(before.Migration, after.Migration) {
		return nil
	}
	return s.putMigration(ctx, tx, after.ID, *after.Migration)
}

// residenceRow is a row of compute_residences, without its consumer.
type residenceRow struct {
	host    string
	devices int
}

// residenceRows returns the rows of a server's residences by consumer.
func residenceRows(s lifecycle.Server) map[string]residenceRow {
	out := map[string]residenceRow{}
	for _, residence := range s.Residences() {
		out[residence.Consumer] = residenceRow{residence.Host, deviceCount(residence.Requests, residence.Topology)}
	}
	return out
}

// ServerOfConsumer returns the id of the server of a consumer: the consumer itself, or the server of the migration with
// this id; fault.NotFound if there is neither.
func (s *Store) ServerOfConsumer(ctx context.Context, consumer string) (string, error) {
	if known, cached := s.servers.get(consumer); cached && known.Ended.IsZero() { // otherwise it may be purged
		return consumer, nil
	}
	var server string
	err := s.db.Read(ctx, func(tx *sqldb.Tx) error {
		server = ""
		const query = `SELECT id FROM compute_servers WHERE id = ?
			UNION SELECT server FROM compute_migrations WHERE id = ?`
		return tx.QueryRow(ctx, query, consumer, consumer).Scan(&server)
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = fault.New(fault.NotFound, "there is no server or migration %s", consumer)
	}
	return server, wrap(err)
}

// IDsOnHost lists the ids of the servers with residences on a host, sorted.
func (s *Store) IDsOnHost(ctx context.Context, host string) ([]string, error) {
	ids, err := s.texts(ctx, `SELECT DISTINCT server FROM compute_residences WHERE host = ? ORDER BY server`, host)
	return ids, wrap(err)
}

// IDsOfStatus lists the ids of the servers with a status of the Compute API that are not deleted, sorted.
func (s *Store) IDsOfStatus(ctx context.Context, status string) ([]string, error) {
	ids, err := s.texts(ctx, `SELECT id FROM compute_servers WHERE status = ? AND ended = 0 ORDER BY id`, status)
	return ids, wrap(err)
}

// OnHost lists the servers with residences on a host, sorted by id.
func (s *Store) OnHost(ctx context.Context, host string) ([]lifecycle.Server, error) {
	var list []lifecycle.Server
	err := s.db.Read(ctx, func(tx *sqldb.Tx) error {
		var err error
		const onHost = ` WHERE id IN (SELECT server FROM compute_residences WHERE host = ?) ORDER BY id`
		list, err = s.servers.readServers(ctx, tx, true, onHost, host)
		return err
	})
	return list, wrap(err)
}

// deviceHosts returns the hosts on which a server has devices or cells before or after a change. What the scheduler
// knows of them may change with it.
func deviceHosts(before, after lifecycle.Server) (hosts []string) {
	for _, s := range []lifecycle.Server{before, after} {
		for _, residence := range s.Residences() {
			if deviceCount(residence.Requests, residence.Topology) > 0 && !slices.Contains(hosts, residence.Host) {
				hosts = append(hosts, residence.Host)
			}
		}
	}
	return hosts
}

// updateHosts begins a change of a server before its COMMIT. It returns a function that updates what the scheduler
// knows of its hosts. It is called with the record that is in memory; committed is false after an error, when the
// server may have been changed all the same.
//
// The guest of a claim that has just begun is added to its host in memory. After any other change the host is read
// again, and also while the end of a write is not known.
func (s *Store) updateHosts(before, after lifecycle.Server) (update func(after lifecycle.Server, committed bool)) {
	_, host, isNew := newGuest(before, after)
	if !isNew || !s.db.IsAlone() {
		return func(after lifecycle.Server, _ bool) { s.hosts.drop("", deviceHosts(before, after)...) }
	}
	began := s.hosts.version(host)
	return func(after lifecycle.Server, committed bool) {
		guest, _, _ := newGuest(before, after)
		s.hosts.add(host, began, func(h schedule.Host) (schedule.Host, bool) {
			h, added := withNewGuest(h, guest)
			if !added || !committed {
				return h, false
			}
			return h.WithMemory(s.plans.of(h.PlanState())), true
		})
	}
}

// noHosts is what updateHosts returns for a change that writes nothing.
func noHosts(lifecycle.Server, bool) {}

// newGuest returns the only guest with devices or cells of a server that had none before, and its host.
func newGuest(before, after lifecycle.Server) (guest schedule.Guest, host string, isNew bool) {
	now := after.Residences()
	if len(before.Residences()) > 0 || len(now) != 1 || now[0].Consumer != after.ID || now[0].PreviousConsumer != "" ||
		before.Migration != nil || after.Migration != nil || deviceCount(now[0].Requests, now[0].Topology) == 0 {
		return guest, "", false
	}
	return guestOf(now[0]), now[0].Host, true
}

// guestOf returns the guest of a residence.
func guestOf(r lifecycle.Residence) schedule.Guest {
	return schedule.Guest{ID: r.Consumer, Requests: r.Requests, Devices: r.Devices, Cells: r.Topology, Placed: r.Cells}
}

// withNewGuest returns a host of Reports with one more guest. It returns false if the host knows its consumer already:
// then its devices may have another state, too.
func withNewGuest(h schedule.Host, guest schedule.Guest) (schedule.Host, bool) {
	at, known := slices.BinarySearchFunc(h.Guests, guest, compareGuests)
	if known || slices.ContainsFunc(h.Devices, func(d pci.Offered) bool { return string(d.Holder) == guest.ID }) ||
		slices.ContainsFunc(h.Counted, func(g schedule.CountedGuest) bool { return g.ID == guest.ID }) {
		return h, false
	}
	guests := slices.Insert(slices.Clone(h.Guests), at, guest) // those of the cached host are shared
	return h.WithGuests(guests).WithFree(), true
}

// compareGuests orders the guests of a host by consumer.
func compareGuests(a, b schedule.Guest) int { return cmp.Compare(a.ID, b.ID) }

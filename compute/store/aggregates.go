package store

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/sqldb"
)

// Aggregate is a host aggregate. With the metadata availability_zone it is a zone.
type Aggregate struct {
	ID       int64  // from 1
	UUID     string // of the aggregate of providers in Placement
	Name     string
	Hosts    []string // sorted
	Metadata map[string]string
	Created  time.Time
	Updated  time.Time // zero: never
}

// Zone returns the availability zone of the aggregate; empty: none.
func (a Aggregate) Zone() string { return a.Metadata[schedule.ZoneKey] }

// Aggregates lists all aggregates by id. They are shared: no caller changes them.
func (s *Store) Aggregates(ctx context.Context) ([]Aggregate, error) {
	return s.allAggregates.get(&s.db, none{}, func() (list []Aggregate, err error) {
		err = s.db.Read(ctx, func(tx *sqldb.Tx) (err error) {
			list, err = readAggregates(ctx, tx)
			return err
		})
		return list, wrap(err)
	})
}

// SetDefaultZone sets the zone of hosts that are in no other one, before the store is used.
func (s *Store) SetDefaultZone(zone string) { s.defaultZone = zone }

// hostZones are the zones of hosts by their aggregates.
type hostZones struct {
	of          []Aggregate
	defaultZone string
}

// Zone returns the zone of a host.
func (z hostZones) Zone(host string) string {
	for _, a := range z.of {
		if zone := a.Zone(); zone != "" && slices.Contains(a.Hosts, host) {
			return zone
		}
	}
	return z.defaultZone
}

// lockZones returns the zones of hosts, which do not change until unlock is called.
func (s *Store) lockZones(ctx context.Context) (zones lifecycle.Zones, unlock func(), err error) {
	s.zones.RLock()
	list, err := s.Aggregates(ctx)
	if err != nil {
		s.zones.RUnlock()
		return nil, nil, err
	}
	return hostZones{list, s.defaultZone}, s.zones.RUnlock, nil
}

// serversOnHosts returns, for each host, the number of servers that have something there or are being claimed there.
func serversOnHosts(ctx context.Context, tx *sqldb.Tx) (map[string]int, error) {
	servers, err := sqldb.QueryMap[string, int](ctx, tx,
		`SELECT host, COUNT(DISTINCT server) FROM compute_residences GROUP BY host`)
	if err != nil {
		return nil, err
	}
	unfinished, err := decodeServers(ctx, tx, `due = 1`, nil)
	for _, one := range unfinished {
		if host := one.ClaimedHost(); host != "" {
			servers[host]++
		}
	}
	return servers, err
}

func readAggregates(ctx context.Context, tx *sqldb.Tx) ([]Aggregate, error) {
	list, err := sqldb.QueryList(ctx, tx, `SELECT id, uuid, name, created, updated FROM compute_aggregates ORDER BY id`,
		nil, func(rows *sql.Rows) (a Aggregate, err error) {
			var created, updated int64
			err = rows.Scan(&a.ID, &a.UUID, &a.Name, &created, &updated)
			a.Created, a.Metadata = time.UnixMicro(created).UTC(), map[string]string{}
			if updated != 0 {
				a.Updated = time.UnixMicro(updated).UTC()
			}
			return a, err
		})
	if err != nil {
		return nil, err
	}
	at := map[int64]*Aggregate{}
	for i := range list {
		at[list[i].ID] = &list[i]
	}
	var id int64
	var key, value string
	err = sqldb.QueryEach(ctx, tx, `SELECT aggregate, host FROM compute_aggregate_hosts ORDER BY host`, nil,
		func(rows *sql.Rows) error {
			err := rows.Scan(&id, &key)
			if a := at[id]; a != nil {
				a.Hosts = append(a.Hosts, key)
			}
			return err
		})
	if err != nil {
		return nil, err
	}
	return list, sqldb.QueryEach(ctx, tx, `SELECT aggregate, name, content FROM compute_aggregate_metadata`, nil,
		func(rows *sql.Rows) error {
			err := rows.Scan(&id, &key, &value)
			if a := at[id]; a != nil {
				a.Metadata[key] = value
			}
			return err
		})
}

// lockAggregates lets the changes of aggregates follow each other, and keeps servers from being claimed until unlock is
// called. The caller has the aggregates read again afterwards.
func (s *Store) lockAggregates() (unlock func()) {
	s.zones.Lock()
	return func() {
		s.allAggregates.forget()
		s.zones.Unlock()
	}
}

// CreateAggregate stores a new aggregate and returns it with its id; fault.Conflict if the name is taken.
func (s *Store) CreateAggregate(ctx context.Context, a Aggregate) (Aggregate, error) {
	defer s.lockAggregates()()
	err := s.db.Write(ctx, func(tx *sqldb.Tx) error {
		taken, err := countOf(ctx, tx, `SELECT COUNT(*) FROM compute_aggregates WHERE name = ?`, a.Name)
		if err != nil {
			return err
		}
		if taken > 0 {
			return aggregateExists(a.Name)
		}
		err = tx.QueryRow(ctx, `SELECT COALESCE(MAX(id), 0) + 1 FROM compute_aggregates`).Scan(&a.ID)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO compute_aggregates (id, uuid, name, created, updated) VALUES (?, ?, ?, ?, 0)`,
			a.ID, a.UUID, a.Name, micros(a.Created))
		if sqldb.IsDuplicate(err) { // of the name or the id, by a COMMIT that has come later than its answer
			return sqldb.Retry(aggregateExists(a.Name))
		}
		if err != nil {
			return err
		}
		return setAggregateMetadata(ctx, tx, a.ID, a.Metadata)
	})
	return a, wrap(err)
}

func aggregateExists(name string) error {
	return fault.New(fault.Conflict, "Aggregate %s already exists.", name)
}

// setAggregateMetadata writes metadata of an aggregate.
func setAggregateMetadata(ctx context.Context, tx *sqldb.Tx, id int64, metadata map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		err := tx.Upsert(ctx, "compute_aggregate_metadata", []string{"aggregate", "name"}, []string{"content"}, id, key,
			metadata[key])
		if err != nil {
			return err
		}
	}
	return nil
}

// ChangeAggregate reads an aggregate, passes it to change, and stores and returns the result, in one transaction.
// change gets all aggregates and, for each host, the number of servers that are there or are being claimed there; if it
// returns an error nothing is stored. It may be called more than once. Meanwhile no server is claimed on a host of
// which the zone changes. ChangeAggregate returns fault.NotFound if the aggregate does not exist, and
// fault.Conflict if its new name is taken.
func (s *Store) ChangeAggregate(ctx context.Context, id int64, now time.Time,
	change func(a *Aggregate, all []Aggregate, servers map[string]int) error) (after Aggregate, err error) {
	defer s.lockAggregates()()
	err = s.db.Write(ctx, func(tx *sqldb.Tx) error {
		if err := tx.Touch(ctx, "compute_aggregates", "uuid"); err != nil { // changes follow each other
			return err
		}
		all, err := readAggregates(ctx, tx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(all, func(a Aggregate) bool { return a.ID == id })
		if i < 0 {
			return unknownAggregate(id)
		}
		servers, err := serversOnHosts(ctx, tx)
		if err != nil {
			return err
		}
		after = all[i]
		after.Hosts, after.Metadata = slices.Clone(after.Hosts), maps.Clone(after.Metadata)
		if err := change(&after, all, servers); err != nil {
			return err
		}
		after.Updated = now.UTC().Truncate(time.Microsecond)
		return replaceAggregate(ctx, tx, all[i], after)
	})
	return after, wrap(err)
}

// replaceAggregate writes the rows of a changed aggregate. What Placement has of it and no longer should is recorded.
func replaceAggregate(ctx context.Context, tx *sqldb.Tx, before, after Aggregate) error {
	_, err := tx.Exec(ctx, `UPDATE compute_aggregates SET name = ?, updated = ? WHERE id = ?`, after.Name,
		micros(after.Updated), after.ID)
	if sqldb.IsDuplicate(err) {
		return aggregateExists(after.Name)
	}
	if err != nil {
		return err
	}
	for _, table := range []string{"compute_aggregate_hosts", "compute_aggregate_metadata"} {
		if _, err := tx.Exec(ctx, `DELETE FROM `+table+` WHERE aggregate = ?`, after.ID); err != nil {
			return err
		}
	}
	for _, host := range after.Hosts {
		_, err := tx.Exec(ctx, `INSERT INTO compute_aggregate_hosts (aggregate, host) VALUES (?, ?)`, after.ID, host)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `DELETE FROM compute_aggregate_removals WHERE host = ? AND uuid = ?`, host, after.UUID)
		if err != nil {
			return err
		}
	}
	for _, host := range before.Hosts {
		if slices.Contains(after.Hosts, host) {
			continue
		}
		err := tx.Upsert(ctx, "compute_aggregate_removals", []string{"host", "uuid"}, []string{"since"}, host, after.UUID,
			micros(after.Updated))
		if err != nil {
			return err
		}
	}
	return setAggregateMetadata(ctx, tx, after.ID, after.Metadata)
}

// DeleteAggregate removes an aggregate; fault.NotFound, and fault.Invalid if it has hosts.
func (s *Store) DeleteAggregate(ctx context.Context, id int64) error {
	defer s.lockAggregates()()
	return wrap(s.db.Write(ctx, func(tx *sqldb.Tx) error {
		hosts, err := countOf(ctx, tx, `SELECT COUNT(*) FROM compute_aggregate_hosts WHERE aggregate = ?`, id)
		if err != nil {
			return err
		}
		if hosts > 0 {
			return fault.New(fault.Invalid, "Cannot remove host from aggregate %d. Reason: Host aggregate is not empty.", id)
		}
		done, err := tx.Exec(ctx, `DELETE FROM compute_aggregates WHERE id = ?`, id)
		if err := sqldb.RequireRow(done, err, unknownAggregate(id)); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `DELETE FROM compute_aggregate_metadata WHERE aggregate = ?`, id)
		return err
	}))
}

// leaveAggregates removes a host from all aggregates. What Placement has of it and no longer should is recorded.
func leaveAggregates(ctx context.Context, tx *sqldb.Tx, host string, now time.Time) error {
	uuids, err := sqldb.QueryTexts(ctx, tx, `SELECT a.uuid FROM compute_aggregates a
		JOIN compute_aggregate_hosts h ON h.aggregate = a.id WHERE h.host = ?`, host)
	if err != nil {
		return err
	}
	for _, uuid := range uuids {
		err := tx.Upsert(ctx, "compute_aggregate_removals", []string{"host", "uuid"}, []string{"since"}, host, uuid,
			micros(now))
		if err != nil {
			return err
		}
	}
	_, err = tx.Exec(ctx, `DELETE FROM compute_aggregate_hosts WHERE host = ?`, host)
	return err
}

func unknownAggregate(id int64) error {
	return fault.New(fault.NotFound, "Aggregate %d could not be found.", id)
}

// AggregateRemovals lists, by host, the aggregates that Placement may still have of it and should not.
func (s *Store) AggregateRemovals(ctx context.Context) (map[string][]string, error) {
	all := map[string][]string{}
	err := s.db.Read(ctx, func(tx *sqldb.Tx) error {
		clear(all)
		return sqldb.QueryEach(ctx, tx, `SELECT host, uuid FROM compute_aggregate_removals ORDER BY host, uuid`, nil,
			func(rows *sql.Rows) error {
				var host, uuid string
				err := rows.Scan(&host, &uuid)
				all[host] = append(all[host], uuid)
				return err
			})
	})
	return all, wrap(err)
}

// AggregateRemovalDone records that Placement does not have an aggregate of a host any more.
func (s *Store) AggregateRemovalDone(ctx context.Context, host, uuid string) error {
	return wrap(s.db.Write(ctx, func(tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM compute_aggregate_removals WHERE host = ? AND uuid = ?`, host, uuid)
		return err
	}))
}

// HostAggregates returns the aggregates of each host, for the filters of the scheduler.
func (s *Store) HostAggregates(ctx context.Context) (map[string][]schedule.Aggregate, error) {
	list, err := s.Aggregates(ctx)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	out := map[string][]schedule.Aggregate{}
	for _, a := range list {
		for _, host := range a.Hosts {
			out[host] = append(out[host], schedule.Aggregate{Name: a.Name, Metadata: a.Metadata})
		}
	}
	return out, nil
}

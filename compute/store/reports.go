package store

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/record"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/sqldb"
)

// PutReport stores the last report of a host, without Guests and Load. The caller sets Seen. If a report is stored
// already, admit is called with it while no other report of the host can be written; if admit returns an error, nothing
// is stored and PutReport returns the error. admit may be called more than once.
//
// Each condition has the time at which it was first reported; see condition.Dated.
//
// Of a report that repeats the last one only Seen is new. It is in memory at once, and is stored later, with others.
func (s *Store) PutReport(ctx context.Context, host schedule.Host, admit func(known schedule.Host) error) error {
	defer s.reports.lock(host.Name)()
	cached, isCached, _ := s.reports.get(host.Name)
	reported := host.Conditions
	host.Conditions = condition.Dated(reported, cached.Conditions, host.Seen)
	if s.reports.isRepeated(withoutGuests(host)) {
		if err := admit(cached); err != nil {
			return wrap(err)
		}
		return wrap(s.putSeen(ctx, host.Name, host.Seen))
	}
	err := s.db.Write(ctx, func(tx *sqldb.Tx) error {
		if err := ensureHost(ctx, tx, host.Name); err != nil {
			return err
		}
		// Reports of two agents that two processes receive are serialized here.
		const lock = `UPDATE compute_hosts SET revision = revision WHERE name = ?`
		if _, err := tx.Exec(ctx, lock, host.Name); err != nil {
			return err
		}
		before := []schedule.Host{cached}
		if !isCached {
			var err error
			if before, err = readHosts(ctx, tx, ` WHERE name = ?`, host.Name); err != nil {
				return err
			}
		}
		for _, b := range before {
			if err := admit(b); err != nil {
				return err
			}
			host.Conditions = condition.Dated(reported, b.Conditions, host.Seen)
		}
		report, err := record.EncodeHost(host)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE compute_hosts SET provider = ?, seen = ?, report = ?, reports = reports + 1
			WHERE name = ?`,
			string(host.Provider), micros(host.Seen), string(report), host.Name)
		return err
	})
	host = withoutGuests(host)
	if err == nil {
		s.reports.written(host.Name, &host)
	} else {
		s.reports.written(host.Name, nil)
	}
	s.hosts.drop(host.Provider, host.Name) // after an error too: only the answer may have been lost
	return wrap(err)
}

// withoutGuests returns a report as it is read again.
func withoutGuests(host schedule.Host) schedule.Host {
	host.Seen, host.Guests, host.Load = time.UnixMicro(micros(host.Seen)).UTC(), nil, 0
	return host
}

// putSeen records when the last report of a host was repeated.
func (s *Store) putSeen(ctx context.Context, host string, at time.Time) error {
	at = time.UnixMicro(micros(at)).UTC()
	due := s.reports.seen(host, at)
	s.hosts.seen(host, at)
	if len(due) == 0 {
		return nil
	}
	err := s.db.Write(ctx, func(tx *sqldb.Tx) error {
		for _, name := range slices.Sorted(maps.Keys(due)) {
			// A report may be stored or forgotten at the same time.
			if _, err := tx.Exec(ctx, `UPDATE compute_hosts SET seen = ? WHERE name = ? AND seen < ? AND seen > 0`,
				micros(due[name]), name, micros(due[name])); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		s.reports.notStored(due)
	}
	return err
}

// Hosts lists the reports of all hosts, sorted by name, without Guests and Load. They are shared: callers must not
// change their lists in place.
func (s *Store) Hosts(ctx context.Context) ([]schedule.Host, error) {
	list, ok, began := s.reports.all()
	if ok {
		return list, nil
	}
	err := s.db.Read(ctx, func(tx *sqldb.Tx) error {
		var err error
		list, err = readHosts(ctx, tx, ` ORDER BY name`)
		return err
	})
	if err == nil {
		s.reports.putAll(list, began)
	}
	return list, wrap(err)
}

// Roots lists all hosts that have reported, sorted by name, with their root providers.
func (s *Store) Roots(ctx context.Context) ([]schedule.HostRoot, error) {
	if list, ok := s.reports.roots(); ok {
		return list, nil
	}
	hosts, err := s.Hosts(ctx)
	var list []schedule.HostRoot
	for _, h := range hosts {
		list = append(list, schedule.HostRoot{Name: h.Name, Root: h.Provider})
	}
	return list, err
}

// Host returns the report of a host by name, without Guests and Load, or fault.NotFound.
func (s *Store) Host(ctx context.Context, name string) (schedule.Host, error) {
	report, ok, began := s.reports.get(name)
	if ok {
		return report, nil
	}
	var list []schedule.Host
	err := s.db.Read(ctx, func(tx *sqldb.Tx) error {
		var err error
		list, err = readHosts(ctx, tx, ` WHERE name = ?`, name)
		return err
	})
	if err == nil && len(list) == 0 {
		err = fault.New(fault.NotFound, "no agent has reported for host %s", name)
	}
	if err != nil {
		return schedule.Host{}, wrap(err)
	}
	s.reports.put(list[0], began)
	return list[0], nil
}

// Reports returns the reports of the hosts with these root providers, with the guests that have devices or cells there,
// for the scheduler. A device counts as available, whatever the report contains, if its consumer is known to be no
// longer on the host: the report is older than the agent's last report about the guest. The device stays taken if the
// same report contains the consumer's guest: an agent sends a host report before it reports a guest as gone, so that
// guest exists although compute has not placed it there.
//
// Guests are sorted by id. Hosts come from memory if nothing has changed there; see hostCache. Callers must not change
// their lists in place.
func (s *Store) Reports(ctx context.Context, roots []provider.ID) (map[provider.ID]schedule.Host, error) {
	s.hosts.trust(s.db.Alone())
	out, missing, began := s.hosts.get(roots)
	if len(missing) == 0 {
		return out, nil
	}
	read := map[provider.ID]schedule.Host{}
	err := s.db.Read(ctx, func(tx *sqldb.Tx) error {
		clear(read)
		for some := range slices.Chunk(missing, chunk) {
			hosts, unread := s.reports.ofRoots(some)
			if len(unread) > 0 {
				condition, args := in("provider", unread)
				more, err := readHosts(ctx, tx, ` WHERE `+condition, args...)
				if err != nil {
					return err
				}
				hosts = append(hosts, more...)
			}
			if err := s.addGuests(ctx, tx, hosts); err != nil {
				return err
			}
			byName := map[string]*schedule.Host{}
			for i := range hosts {
				byName[hosts[i].Name] = &hosts[i]
			}
			if err := addDisabled(ctx, tx, byName); err != nil {
				return err
			}
			for _, h := range hosts {
				h = h.WithFree()
				read[h.Provider] = h.WithMemory(s.plans.of(h.PlanState()))
			}
		}
		return nil
	})
	if err != nil {
		return nil, wrap(err)
	}
	s.hosts.put(missing, read, began)
	maps.Copy(out, read)
	return out, nil
}

// addGuests adds the guests to the hosts and frees the devices of consumers that are no longer there.
func (s *Store) addGuests(ctx context.Context, tx *sqldb.Tx, hosts []schedule.Host) error {
	if len(hosts) == 0 {
		return nil
	}
	index := map[string]int{}
	holders := map[string]bool{}
	for i, h := range hosts {
		index[h.Name] = i
		for _, d := range h.Devices {
			if d.Holder != "" {
				holders[string(d.Holder)] = true
			}
		}
		for _, g := range h.Counted {
			holders[g.ID] = true
		}
	}
	condition, args := in("host", slices.Sorted(maps.Keys(index)))
	servers, err := s.servers.readServers(ctx, tx, true,
		` WHERE id IN (SELECT server FROM compute_residences WHERE devices > 0 AND `+condition+`)`, args...)
	if err != nil {
		return err
	}
	for _, server := range servers {
		for _, residence := range server.Residences() {
			if i, here := index[residence.Host]; here && deviceCount(residence.Requests, residence.Topology) > 0 {
				hosts[i].Counted = renamedCount(hosts[i].Counted, residence)
				hosts[i].Guests = append(hosts[i].Guests, guestOf(residence))
			}
		}
	}
	placed, err := hostsOfConsumers(ctx, tx, slices.Sorted(maps.Keys(holders)))
	if err != nil {
		return err
	}
	for i := range hosts {
		slices.SortFunc(hosts[i].Guests, compareGuests)
		freeOfGone(&hosts[i], placed)
	}
	return nil
}

// renamedCount returns the counted guests of a report in which the agent knows the guest of a residence by its earlier
// id.
func renamedCount(counted []schedule.CountedGuest, residence lifecycle.Residence) []schedule.CountedGuest {
	at := func(id string) int {
		return slices.IndexFunc(counted, func(g schedule.CountedGuest) bool { return g.ID == id })
	}
	was := at(residence.PreviousConsumer)
	if residence.PreviousConsumer == "" || was < 0 || at(residence.Consumer) >= 0 {
		return counted
	}
	counted = slices.Clone(counted) // those of the report are shared
	counted[was].ID = residence.Consumer
	return counted
}

// freeOfGone frees the devices and the NUMA cells of consumers that are known to be no longer on a host. placed has the
// hosts of the known consumers.
func freeOfGone(h *schedule.Host, placed map[string]string) {
	gone := func(id string) bool {
		at, known := placed[id]
		return known && at != h.Name &&
			!slices.ContainsFunc(h.Present, func(p schedule.Present) bool { return p.ID == id })
	}
	h.Devices = slices.Clone(h.Devices) // those of the report are shared
	for j, d := range h.Devices {
		if (d.State == pci.Claimed || d.State == pci.Allocated) && gone(string(d.Holder)) {
			h.Devices[j].State, h.Devices[j].Holder = pci.Available, ""
		}
	}
	counts := func(g schedule.CountedGuest) bool {
		return gone(g.ID) && !slices.ContainsFunc(h.Guests, func(o schedule.Guest) bool { return o.ID == g.ID })
	}
	h.Counted = slices.DeleteFunc(slices.Clone(h.Counted), counts)
}

// hostsOfConsumers returns the host of each consumer, "" for a consumer without a host. Unknown consumers are omitted.
func hostsOfConsumers(ctx context.Context, tx *sqldb.Tx, ids []string) (map[string]string, error) {
	out := map[string]string{}
	for some := range slices.Chunk(ids, chunk) {
		for _, from := range []string{
			`SELECT id, '' FROM compute_servers WHERE id`,
			`SELECT id, '' FROM compute_migrations WHERE id`,
			`SELECT consumer, host FROM compute_residences WHERE consumer`,
		} {
			condition, args := in("", some)
			if err := scanHosts(ctx, tx, from+condition, args, out); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// scanHosts adds the result of a query for consumers and hosts to out.
func scanHosts(ctx context.Context, tx *sqldb.Tx, query string, args []any, out map[string]string) error {
	hosts, err := sqldb.QueryMap[string, string](ctx, tx, query, args...)
	maps.Copy(out, hosts)
	return err
}

// readHosts reads the reports of the rows that the rest of the statement selects. Hosts without a report are omitted.
func readHosts(ctx context.Context, tx *sqldb.Tx, rest string, args ...any) ([]schedule.Host, error) {
	var list []schedule.Host
	err := sqldb.QueryEach(ctx, tx, `SELECT name, report, seen FROM compute_hosts`+rest, args,
		func(rows *sql.Rows) error {
			var name string
			var report []byte
			var seen int64
			if err := rows.Scan(&name, &report, &seen); err != nil || len(report) == 0 {
				return err
			}
			host, err := record.DecodeHost(name, report)
			host.Seen = time.UnixMicro(seen).UTC()
			list = append(list, host)
			return err
		})
	return list, err
}

package store

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/sqldb"
)

// Assignments are the guests that must be on a host and those that must be removed from it, by consumer.
type Assignments struct {
	Cloud         string
	Epoch         Epoch // of this process
	Revision      int64 // grows with each change; 0 for a host that never had a server
	Entries       []Entry
	Removals      []lifecycle.Removal
	CleanRequests []CleanRequest // that are not answered, by address
}

// Entry is a guest that shall be on a host, and its server.
type Entry struct {
	lifecycle.Entry
	Server lifecycle.Server
}

// PutReport stores the last report of a host; Guests and Load are not part of it. Seen is the caller's to set. admit is
// asked, while no other report of the host is written, with what is stored of the host; its error is returned and
// nothing is stored. It may be asked more than once. A host without a report is not asked about.
func (s *Store) PutReport(ctx context.Context, host schedule.Host, admit func(known schedule.Host) error) error {
	const op = "PutReport"
	report, err := encodeHost(host)
	if err != nil {
		return wrap(op, err)
	}
	return wrap(op, s.db.Write(ctx, func(tx *sqldb.Tx) error {
		if err := ensureHost(ctx, tx, host.Name); err != nil {
			return err
		}
		// Two agents that come at the same moment wait for each other here.
		const lock = `UPDATE compute_hosts SET revision = revision WHERE name = ?`
		if _, err := tx.Exec(ctx, lock, host.Name); err != nil {
			return err
		}
		before, err := readHosts(ctx, tx, ` WHERE name = ?`, host.Name)
		if err != nil {
			return err
		}
		for _, b := range before {
			if err := admit(b); err != nil {
				return err
			}
		}
		_, err = tx.Exec(ctx, `UPDATE compute_hosts SET provider = ?, seen = ?, report = ? WHERE name = ?`,
			string(host.Provider), micros(host.Seen), string(report), host.Name)
		return err
	}))
}

// Hosts lists the reports of all hosts, by name, without Guests and Load.
func (s *Store) Hosts(ctx context.Context) ([]schedule.Host, error) {
	var list []schedule.Host
	err := s.db.Read(ctx, func(tx *sqldb.Tx) error {
		var err error
		list, err = readHosts(ctx, tx, ` ORDER BY name`)
		return err
	})
	return list, wrap("Hosts", err)
}

// Host reads the report of one host by name, without Guests and Load; fault.NotFound.
func (s *Store) Host(ctx context.Context, name string) (schedule.Host, error) {
	var list []schedule.Host
	err := s.db.Read(ctx, func(tx *sqldb.Tx) error {
		var err error
		list, err = readHosts(ctx, tx, ` WHERE name = ?`, name)
		return err
	})
	if err == nil && len(list) == 0 {
		err = fault.New(fault.NotFound, "", "no agent has reported for host %s", name)
	}
	if err != nil {
		return schedule.Host{}, wrap("Host", err)
	}
	return list[0], nil
}

// Reports reads the reports of the hosts with these root providers and the guests with devices placed on them, for the
// scheduler. A device whose holder is known to be no longer there counts as available whatever the report says: the
// report is older than what the agent told of the guest. It does not when the same report has the holder's guest: an
// agent reports before it says that a guest is gone, so that guest exists although compute has not placed it there.
func (s *Store) Reports(ctx context.Context, roots []provider.ID) (map[provider.ID]schedule.Host, error) {
	out := map[provider.ID]schedule.Host{}
	err := s.db.Read(ctx, func(tx *sqldb.Tx) error {
		clear(out)
		for some := range slices.Chunk(roots, chunk) {
			condition, args := in("provider", some)
			hosts, err := readHosts(ctx, tx, ` WHERE `+condition, args...)
			if err != nil {
				return err
			}
			if err := addGuests(ctx, tx, hosts); err != nil {
				return err
			}
			for _, h := range hosts {
				out[h.Provider] = h
			}
		}
		return nil
	})
	return out, wrap("Reports", err)
}

// addGuests fills in the guests and corrects the devices of those that have left.
func addGuests(ctx context.Context, tx *sqldb.Tx, hosts []schedule.Host) error {
	if len(hosts) == 0 {
		return nil
	}
	index := map[string]int{}
	holders := map[string]bool{}
	for i, h := range hosts {
		index[h.Name] = i
		for _, d := range h.Devices {
			if d.Holder != "" {
				holders[d.Holder] = true
			}
		}
	}
	condition, args := in("host", slices.Sorted(maps.Keys(index)))
	servers, err := readServers(ctx, tx,
		` WHERE id IN (SELECT server FROM compute_stays WHERE weighs > 0 AND `+condition+`) ORDER BY id`, args...)
	if err != nil {
		return err
	}
	for _, server := range servers {
		for _, stay := range server.Residences() {
			if i, here := index[stay.Host]; here && deviceCount(stay.Requests, stay.Topology) > 0 {
				hosts[i].Guests = append(hosts[i].Guests, schedule.Guest{ID: stay.Consumer, Requests: stay.Requests,
					Devices: stay.Devices, Cells: stay.Topology, Placed: stay.Cells})
			}
		}
	}
	placed, err := hostsOfConsumers(ctx, tx, slices.Sorted(maps.Keys(holders)))
	if err != nil {
		return err
	}
	for i := range hosts {
		for j, d := range hosts[i].Devices {
			at, known := placed[d.Holder]
			present := slices.ContainsFunc(hosts[i].Present, func(p schedule.Present) bool { return p.ID == d.Holder })
			given := d.State == schedule.Claimed || d.State == schedule.Allocated
			if known && !present && given && at != hosts[i].Name {
				hosts[i].Devices[j].State, hosts[i].Devices[j].Holder = schedule.Available, ""
			}
		}
	}
	return nil
}

// placedAt says on which host each of these consumers is, "" for none. One that is unknown is missing.
func hostsOfConsumers(ctx context.Context, tx *sqldb.Tx, ids []string) (map[string]string, error) {
	out := map[string]string{}
	for some := range slices.Chunk(ids, chunk) {
		for _, from := range []string{
			`SELECT id, '' FROM compute_servers WHERE id`,
			`SELECT id, '' FROM compute_migrations WHERE id`,
			`SELECT consumer, host FROM compute_stays WHERE consumer`,
		} {
			condition, args := in("", some)
			if err := scanHosts(ctx, tx, from+condition, args, out); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

func scanHosts(ctx context.Context, tx *sqldb.Tx, query string, args []any, out map[string]string) error {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id, placed string
		if err := rows.Scan(&id, &placed); err != nil {
			return err
		}
		out[id] = placed
	}
	return rows.Err()
}

// Assignments reads what shall be on a host.
func (s *Store) Assignments(ctx context.Context, host string) (Assignments, error) {
	var out Assignments
	err := s.db.Read(ctx, func(tx *sqldb.Tx) error {
		out = Assignments{Cloud: s.cloud, Epoch: s.epoch}
		rows, err := tx.Query(ctx, `SELECT revision FROM compute_hosts WHERE name = ?`, host)
		if err != nil {
			return err
		}
		for rows.Next() {
			if err := rows.Scan(&out.Revision); err != nil {
				return err
			}
		}
		if err := rows.Err(); err != nil {
			return err
		}
		const onHost = ` WHERE id IN (SELECT server FROM compute_stays WHERE host = ?) ORDER BY id`
		servers, err := readServers(ctx, tx, onHost, host)
		for _, server := range servers {
			for _, e := range server.Entries() {
				if e.Host == host {
					out.Entries = append(out.Entries, Entry{Entry: e, Server: server})
				}
			}
		}
		slices.SortFunc(out.Entries, func(a, b Entry) int { return cmp.Compare(a.Consumer, b.Consumer) })
		if err == nil {
			out.Removals, err = readRemovals(ctx, tx, host, servers)
			slices.SortFunc(out.Removals, func(a, b lifecycle.Removal) int {
				return cmp.Compare(a.Consumer, b.Consumer)
			})
		}
		if err == nil {
			out.CleanRequests, err = readCleanRequests(ctx, tx, ` WHERE host = ? AND refused = '' ORDER BY address`, host)
		}
		return err
	})
	return out, wrap("Assignments", err)
}

// Follow gives a channel that receives after each change of a host's assignments in this process; several changes may
// come as one. stop ends it.
func (s *Store) Subscribe(host string) (changed <-chan struct{}, stop func()) {
	ch := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.subscribers[host] == nil {
		s.subscribers[host] = map[chan struct{}]bool{}
	}
	s.subscribers[host][ch] = true
	return ch, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.subscribers[host], ch)
		if len(s.subscribers[host]) == 0 {
			delete(s.subscribers, host)
		}
	}
}

// tell wakes those who follow the hosts.
func (s *Store) notify(hosts ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, host := range hosts {
		for ch := range s.subscribers[host] {
			select {
			case ch <- struct{}{}:
			default: // it has been told and has not looked yet
			}
		}
	}
}

// meet makes the row of a host exist.
func ensureHost(ctx context.Context, tx *sqldb.Tx, host string) error {
	_, err := tx.InsertIgnore(ctx, `INSERT INTO compute_hosts (name, provider, revision, seen, report)
		VALUES (?, '', 0, 0, '')`, host)
	return err
}

// raise counts up the revision of each host's assignments. An empty name is nobody.
func raiseRevisions(ctx context.Context, tx *sqldb.Tx, hosts ...string) error {
	for _, host := range hosts {
		if host == "" {
			continue
		}
		if err := ensureHost(ctx, tx, host); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE compute_hosts SET revision = revision + 1 WHERE name = ?`, host); err != nil {
			return err
		}
	}
	return nil
}

// readHosts reads the reports of the rows that the rest of the statement finds. A host without a report is none.
func readHosts(ctx context.Context, tx *sqldb.Tx, rest string, args ...any) ([]schedule.Host, error) {
	rows, err := tx.Query(ctx, `SELECT name, report, seen FROM compute_hosts`+rest, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []schedule.Host
	for rows.Next() {
		var name string
		var report []byte
		var seen int64
		if err := rows.Scan(&name, &report, &seen); err != nil {
			return nil, err
		}
		if len(report) == 0 {
			continue
		}
		host, err := decodeHost(name, report)
		if err != nil {
			return nil, err
		}
		host.Seen = time.UnixMicro(seen).UTC()
		list = append(list, host)
	}
	return list, rows.Err()
}

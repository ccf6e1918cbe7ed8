package store

import (
	"cmp"
	"context"
	"maps"
	"reflect"
	"slices"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/sqldb"
)

// Assignments are the guests that must be on a host and those that must be removed from it, by consumer.
type Assignments struct {
	Cloud         string
	Epoch         Epoch // of this process
	Revision      int64 // grows with each change; 0 for a host that never had a server
	Entries       []Entry
	Removals      []lifecycle.Removal
	CleanRequests []CleanRequest // clean requests without an answer, by address
}

// Entry is a guest that must be on a host, and its server.
type Entry struct {
	lifecycle.Entry
	Server lifecycle.Server
}

// Assignments returns the assignments of a host.
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
		servers, err := s.servers.readServers(ctx, tx, true, onHost, host)
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

// assignmentsTouched lists the hosts whose assignments the change affects, sorted.
func assignmentsTouched(before, after lifecycle.Server) []string {
	old, now := entriesByHost(before), entriesByHost(after)
	leaving, left := removalsByHost(before), removalsByHost(after)
	same := before.Name == after.Name && before.Image == after.Image && before.Builds == after.Builds
	hosts := map[string]bool{}
	for _, host := range slices.Concat(keys(old), keys(now), keys(leaving), keys(left)) {
		hosts[host] = true
	}
	maps.DeleteFunc(hosts, func(host string, _ bool) bool {
		return host == "" || same && reflect.DeepEqual(old[host], now[host]) &&
			reflect.DeepEqual(leaving[host], left[host])
	})
	return slices.Sorted(maps.Keys(hosts)) // sorted, so that concurrent transactions lock the rows in the same order
}

// entriesByHost returns the entries of a server by host, without the fields that agents report.
func entriesByHost(s lifecycle.Server) map[string][]lifecycle.Entry {
	out := map[string][]lifecycle.Entry{}
	for _, e := range s.Entries() {
		e.Residence.Devices, e.Cells, e.Reported, e.Choice = nil, nil, false, nil
		out[e.Host] = append(out[e.Host], e)
	}
	return out
}

// removalsByHost returns the removals of a server by host.
func removalsByHost(s lifecycle.Server) map[string][]lifecycle.Removal {
	out := map[string][]lifecycle.Removal{}
	for _, r := range s.Removals() {
		out[r.Host] = append(out[r.Host], r)
	}
	return out
}

func keys[V any](m map[string]V) []string { return slices.Collect(maps.Keys(m)) }

package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/sqldb"
)

// Versions are the versions of the servers and hosts of a database, and what operators have declared, at one time.
type Versions struct {
	Servers map[string]ServerVersion // by id; without deleted ones
	Hosts   map[string]int64         // by name: how often the report, without its time, was written
	Dead    map[string]bool          // the hosts that an operator has declared dead
	// Disabled has the reason of each host that an operator has disabled.
	Disabled map[string]string
	Devices  []DisabledDevice // the records of disabled devices, by host, address and id; also those that have expired
}

// ServerVersion identifies the version of the record of a server; see isCurrent.
type ServerVersion struct {
	Revision int64
	updated  int64
}

// Writes returns how many transactions that write this process has ended. As long as the number does not change, only
// another process can have changed the Versions.
func (s *Store) Writes() int64 { return s.db.Writes() }

// Versions reads the versions of all servers and hosts. It uses nothing that is in memory, so it returns also what
// other processes have written.
func (s *Store) Versions(ctx context.Context) (v Versions, err error) {
	err = s.db.Read(ctx, func(tx *sqldb.Tx) (err error) {
		v = Versions{Servers: map[string]ServerVersion{}, Dead: map[string]bool{}}
		if err := sqldb.QueryEach(ctx, tx, `SELECT id, revision, updated FROM compute_servers WHERE ended = 0`, nil,
			func(rows *sql.Rows) error {
				var id string
				var of ServerVersion
				err := rows.Scan(&id, &of.Revision, &of.updated)
				v.Servers[id] = of
				return err
			}); err != nil {
			return err
		}
		if v.Hosts, err = sqldb.QueryMap[string, int64](ctx, tx, `SELECT name, reports FROM compute_hosts
			WHERE seen > 0`); err != nil {
			return err
		}
		dead, err := sqldb.QueryTexts(ctx, tx, `SELECT host FROM compute_dead`)
		if err != nil {
			return err
		}
		for _, host := range dead {
			v.Dead[host] = true
		}
		const disabled = `SELECT host, reason FROM compute_disabled`
		if v.Disabled, err = sqldb.QueryMap[string, string](ctx, tx, disabled); err != nil {
			return err
		}
		v.Devices, err = readDisabledDevices(ctx, tx, ` ORDER BY host, address, id`)
		return err
	})
	return v, wrap(err)
}

// MaxRead is the largest number of servers or hosts that one call of ReadServers or ReadReports may read.
const MaxRead = chunk

// ReadServers reads servers by id, also deleted ones, in any order. Unknown ids are left out.
func (s *Store) ReadServers(ctx context.Context, ids []string) (list []lifecycle.Server, err error) {
	condition, args := in("id", ids)
	err = s.db.Read(ctx, func(tx *sqldb.Tx) (err error) {
		list, err = s.servers.readServers(ctx, tx, false, ` WHERE `+condition, args...)
		return err
	})
	return list, wrap(err)
}

// ReadReports reads the reports of hosts by name, in any order, without Guests and Load. Hosts without a report are
// left out. It uses nothing that is in memory. Seen may be that of an earlier report.
func (s *Store) ReadReports(ctx context.Context, names []string) (list []schedule.Host, err error) {
	condition, args := in("name", names)
	err = s.db.Read(ctx, func(tx *sqldb.Tx) (err error) {
		list, err = readHosts(ctx, tx, ` WHERE `+condition, args...)
		return err
	})
	return list, wrap(err)
}

// DisabledAt returns the records of Versions.Devices that disable a device at a time, by host.
func (v Versions) DisabledAt(now time.Time) map[string][]DisabledDevice {
	out := map[string][]DisabledDevice{}
	for _, d := range v.Devices {
		if !d.Enable && !d.Expired(now) {
			out[d.Host] = append(out[d.Host], d)
		}
	}
	return out
}

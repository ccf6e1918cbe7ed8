package store

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"time"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/sqldb"
)

// DisabledDevice is an operator's request to disable a device, or to enable one. A request to disable is kept until the
// device is enabled or its time has come; one to enable, until the agent has answered.
type DisabledDevice struct {
	Host string
	pci.Disablement
	Enable   bool // the disablement must end; without a reason and times if there is none
	Reported bool // the agent has reported the disablement
}

const disabledColumns = `SELECT host, id, address, reason, since, until_time, enable, reported
	FROM compute_disabled_devices`

// DisableDevice records that an operator disables a device, replaces an earlier record of an operator for the same
// address, and notifies the subscribers of the host. It returns fault.NotFound if no agent has reported for the host.
func (s *Store) DisableDevice(ctx context.Context, d DisabledDevice) error {
	until := int64(0)
	if !d.Until.IsZero() {
		until = d.Until.Unix()
	}
	return s.changeDisabled(ctx, d.Host, func(tx *sqldb.Tx) error {
		if _, err := tx.Exec(ctx, `DELETE FROM compute_disabled_devices WHERE host = ? AND address = ? AND enable = 0`,
			d.Host, d.Address.String()); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO compute_disabled_devices
			(host, id, address, reason, since, until_time, enable, reported) VALUES (?, ?, ?, ?, ?, ?, 0, 0)`,
			d.Host, d.ID, d.Address.String(), d.Reason, d.Since.Unix(), until)
		return err
	})
}

// EnableDevice records that an operator enables a device: the disablements of its address must end, those that its
// agent reports now included. If there is none, and no such request yet, it records one with the id request and no
// reason. It notifies the subscribers of the host. It returns fault.NotFound if no agent has reported for the host.
func (s *Store) EnableDevice(ctx context.Context, host string, address pci.Address, now []pci.Disablement,
	request string) error {
	return s.changeDisabled(ctx, host, func(tx *sqldb.Tx) error {
		if _, err := tx.Exec(ctx, `UPDATE compute_disabled_devices SET enable = 1 WHERE host = ? AND address = ?`, host,
			address.String()); err != nil {
			return err
		}
		list, err := readDisabledDevices(ctx, tx, ` WHERE host = ? AND address = ?`, host, address.String())
		if err != nil {
			return err
		}
		if len(list)+len(now) == 0 {
			now = []pci.Disablement{{ID: request}}
		}
		for _, d := range now {
			if _, err := tx.InsertIgnore(ctx, `INSERT INTO compute_disabled_devices
				(host, id, address, reason, since, until_time, enable, reported) VALUES (?, ?, ?, ?, ?, 0, 1, 1)`, host, d.ID,
				address.String(), d.Reason, max(d.Since.Unix(), 0)); err != nil {
				return err
			}
		}
		return nil
	})
}

// changeDisabled changes the records of a host in a transaction.
func (s *Store) changeDisabled(ctx context.Context, host string, change func(tx *sqldb.Tx) error) error {
	defer s.hosts.drop("", host)
	err := s.db.Write(ctx, func(tx *sqldb.Tx) error {
		if err := lockReportedHost(ctx, tx, host); err != nil {
			return err
		}
		if err := change(tx); err != nil {
			return err
		}
		return raiseRevisions(ctx, tx, host)
	})
	if err == nil {
		s.notify(host)
	}
	return wrap(err)
}

// DisabledDevices lists the records of all hosts without those that have expired, by host, address and id.
func (s *Store) DisabledDevices(ctx context.Context, now time.Time) ([]DisabledDevice, error) {
	var list []DisabledDevice
	err := s.db.Read(ctx, func(tx *sqldb.Tx) (err error) {
		list, err = readDisabledDevices(ctx, tx, ` ORDER BY host, address, id`)
		return err
	})
	return slices.DeleteFunc(list, func(d DisabledDevice) bool { return d.Expired(now) }), wrap(err)
}

// ResolveDisabled applies the report of a host's agent: the ids of the disablements that it knows, and of those that
// have ended. It removes the records of the latter, and those that have expired.
func (s *Store) ResolveDisabled(ctx context.Context, host string, known, ended []string, now time.Time) error {
	var list []DisabledDevice
	if err := s.db.Read(ctx, func(tx *sqldb.Tx) (err error) {
		list, err = readDisabledDevices(ctx, tx, ` WHERE host = ?`, host)
		return err
	}); err != nil {
		return wrap(err)
	}
	var remove, reported []string
	for _, d := range list {
		switch {
		case d.Expired(now), d.Enable && slices.Contains(ended, d.ID):
			remove = append(remove, d.ID)
		case !d.Reported && slices.Contains(known, d.ID):
			reported = append(reported, d.ID)
		}
	}
	if len(remove)+len(reported) == 0 {
		return nil
	}
	defer s.hosts.drop("", host)
	return wrap(s.db.Write(ctx, func(tx *sqldb.Tx) error {
		for statement, ids := range map[string][]string{
			`DELETE FROM compute_disabled_devices WHERE host = ? AND id = ?`:             remove,
			`UPDATE compute_disabled_devices SET reported = 1 WHERE host = ? AND id = ?`: reported} {
			for _, id := range ids {
				if _, err := tx.Exec(ctx, statement, host, id); err != nil {
					return err
				}
			}
		}
		return nil
	}))
}

// addDisabled marks the devices of hosts that operators have disabled and whose agents have not reported that yet.
func addDisabled(ctx context.Context, tx *sqldb.Tx, hosts map[string]*schedule.Host) error {
	for some := range slices.Chunk(slices.Sorted(maps.Keys(hosts)), chunk) {
		condition, args := in("host", some)
		list, err := readDisabledDevices(ctx, tx, ` WHERE enable = 0 AND reported = 0 AND `+condition, args...)
		if err != nil {
			return err
		}
		for _, d := range list {
			*hosts[d.Host] = hosts[d.Host].WithDisabled(d.Disablement)
		}
	}
	return nil
}

// readDisabledDevices reads the records that the rest of the statement selects.
func readDisabledDevices(ctx context.Context, tx *sqldb.Tx, rest string, args ...any) ([]DisabledDevice, error) {
	return sqldb.QueryList(ctx, tx, disabledColumns+rest, args, scanDisabledDevice)
}

func scanDisabledDevice(rows *sql.Rows) (d DisabledDevice, err error) {
	var address string
	var since, until int64
	if err := rows.Scan(&d.Host, &d.ID, &address, &d.Reason, &since, &until, &d.Enable, &d.Reported); err != nil {
		return d, err
	}
	if d.Address, err = pci.ParseAddress(address); err != nil {
		return d, fault.New(fault.Internal, "cannot read a disabled device: device address %q: %w", address, err)
	}
	d.Since = time.Unix(since, 0).UTC()
	if until != 0 {
		d.Until = time.Unix(until, 0).UTC()
	}
	return d, nil
}

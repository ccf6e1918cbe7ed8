package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/quota"
	"github.com/openberth/berth/compute/record"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/sqldb"
)

// Schema returns how many migrations a database records, and how many this program has. It writes nothing. It returns
// fault.Invalid for a database that Open does not accept.
func Schema(ctx context.Context, db *sqldb.DB) (recorded, all int, err error) {
	recorded, err = sqldb.Recorded(ctx, db, "compute_schema", schema, "compute_versions")
	return recorded, len(schema), err
}

// tableCheck reads the rows of a table as the service reads them.
type tableCheck struct {
	table, query string
	// read returns what identifies a row, if that was read, and why the rest of the row cannot be read.
	read func(rows *sql.Rows) (id string, err error)
}

// tableChecks are the tables with records, with words and addresses that the service parses, and those of the objects
// that users and operators make. plainTables are all others.
var tableChecks = []tableCheck{
	{"compute_servers", `SELECT id, record FROM compute_servers ORDER BY id`,
		encoded(func(id string, text []byte) error {
			_, err := record.DecodeServer(id, text)
			return err
		})},
	{"compute_hosts", `SELECT name, report FROM compute_hosts ORDER BY name`,
		encoded(func(name string, text []byte) error {
			if len(text) == 0 {
				return nil // no agent has reported
			}
			_, err := record.DecodeHost(name, text)
			return err
		})},
	{"compute_quota_use", `SELECT server, amounts FROM compute_quota_use ORDER BY server`,
		encoded(func(_ string, text []byte) error { return json.Unmarshal(text, &quota.Amounts{}) })},
	{"compute_flavors", `SELECT ` + flavorColumns + ` FROM compute_flavors ORDER BY id`,
		func(rows *sql.Rows) (string, error) {
			f, err := scanFlavor(rows)
			return f.ID, err
		}},
	{"compute_server_groups", `SELECT ` + groupColumns + ` FROM compute_server_groups ORDER BY id`,
		func(rows *sql.Rows) (string, error) {
			g, err := scanGroup(rows)
			if err == nil && !slices.Contains(schedule.GroupPolicies(), g.Policy) {
				err = fault.New(fault.Internal, "its policy %q is not known", g.Policy)
			}
			return g.ID, err
		}},
	{"compute_keypairs", `SELECT ` + keyPairColumns + ` FROM compute_keypairs ORDER BY user_id, name`,
		func(rows *sql.Rows) (string, error) {
			k, err := scanKeyPair(rows)
			return k.User + "/" + k.Name, err
		}},
	{"compute_migrations", migrationColumns + ` ORDER BY id`, func(rows *sql.Rows) (string, error) {
		m, err := scanMigration(rows)
		if err == nil && !slices.Contains(lifecycle.Kinds(), m.Kind) {
			err = fault.New(fault.Internal, "its kind %q is not known", m.Kind)
		}
		return m.ID, err
	}},
	{"compute_clean_requests", cleanRequestColumns + ` ORDER BY host, address`, func(rows *sql.Rows) (string, error) {
		r, err := scanCleanRequest(rows)
		return r.Host, err
	}},
	{"compute_disabled_devices", disabledColumns + ` ORDER BY host, id`, func(rows *sql.Rows) (string, error) {
		d, err := scanDisabledDevice(rows)
		return d.Host, err
	}},
}

// plainTables have columns with names, numbers and free texts only: what a row means does not depend on the version of
// Berth that reads it.
var plainTables = []string{"compute_flavor_specs", "compute_flavor_access", "compute_residences", "compute_dead",
	"compute_cloud", "compute_lease_owner", "compute_lease", "compute_epochs", "compute_epoch_ends", "compute_removals",
	"compute_disabled", "compute_host_accounts", "compute_quotas", "compute_quota_locks", "compute_aggregates",
	"compute_aggregate_hosts", "compute_aggregate_metadata", "compute_aggregate_removals", "compute_group_members"}

// encoded returns a check of rows with an id and a record.
func encoded(decode func(id string, text []byte) error) func(*sql.Rows) (string, error) {
	return func(rows *sql.Rows) (id string, err error) {
		var text []byte
		if err := rows.Scan(&id, &text); err != nil {
			return "", err
		}
		return id, decode(id, text)
	}
}

// Unreadable reads every row of tableChecks of a database with the present schema, and returns an error for each that
// cannot be read, and the number of rows. It writes nothing. err is an error of the database.
func Unreadable(ctx context.Context, db *sqldb.DB) (bad []error, records int, err error) {
	for _, of := range tableChecks {
		var some []error
		n := 0
		err := db.Read(ctx, func(tx *sqldb.Tx) error {
			some, n = nil, 0
			return sqldb.QueryEach(ctx, tx, of.query, nil, func(rows *sql.Rows) error {
				n++
				if id, err := of.read(rows); err != nil {
					some = append(some, fault.New(fault.Internal, "cannot read row %s of %s: %w; start the Berth that wrote it, "+
						"or restore a backup of the database", cmp.Or(id, fmt.Sprint("number ", n)), of.table, err))
				}
				return nil
			})
		})
		if err != nil {
			return nil, 0, wrap(err)
		}
		bad, records = append(bad, some...), records+n
	}
	return bad, records, nil
}

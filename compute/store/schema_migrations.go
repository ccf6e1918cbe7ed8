package store

import (
	"context"
	"fmt"

	"github.com/openberth/berth/sqldb"
)

// versionTable is the table that lists the completed migrations.
const versionTable = "compute_versions"

// schemaMigrations returns the migrations of the schema, in order. A released migration must not change.
//
// Times are whole microseconds since 1970 in UTC, 0 for none, on every dialect.
func schemaMigrations() []sqldb.Migration {
	return append([]sqldb.Migration{
		sqldb.Table("compute_flavors", `
			id VARCHAR(255) NOT NULL PRIMARY KEY,
			name VARCHAR(255) NOT NULL UNIQUE,
			description TEXT NOT NULL,
			vcpus INTEGER NOT NULL,
			memory_mb INTEGER NOT NULL,
			disk_gb INTEGER NOT NULL,
			ephemeral_gb INTEGER NOT NULL,
			swap_mb INTEGER NOT NULL,
			rxtx_factor DOUBLE PRECISION NOT NULL,
			is_public INTEGER NOT NULL,
			is_disabled INTEGER NOT NULL`),
		sqldb.Table("compute_flavor_specs", `
			flavor_id VARCHAR(255) NOT NULL,
			spec VARCHAR(255) NOT NULL,
			content TEXT NOT NULL,
			PRIMARY KEY (flavor_id, spec)`),
		sqldb.Table("compute_servers", `
			id VARCHAR(64) NOT NULL PRIMARY KEY,
			name VARCHAR(255) NOT NULL,
			project VARCHAR(255) NOT NULL,
			user_id VARCHAR(255) NOT NULL,
			flavor VARCHAR(255) NOT NULL,
			state VARCHAR(32) NOT NULL,
			status VARCHAR(32) NOT NULL,
			due INTEGER NOT NULL,
			host VARCHAR(255) NOT NULL,
			placed VARCHAR(255) NOT NULL,
			devices INTEGER NOT NULL,
			created BIGINT NOT NULL,
			updated BIGINT NOT NULL,
			ended BIGINT NOT NULL,
			revision BIGINT NOT NULL,
			record LARGE NOT NULL`, "placed", "due, id", "created, id", "ended, id"),
		sqldb.Table("compute_hosts", `
			name VARCHAR(255) NOT NULL PRIMARY KEY,
			provider VARCHAR(64) NOT NULL,
			revision BIGINT NOT NULL,
			seen BIGINT NOT NULL,
			report LARGE NOT NULL`, "provider"),
		sqldb.Table("compute_residences", `
			consumer VARCHAR(64) NOT NULL PRIMARY KEY,
			server VARCHAR(64) NOT NULL,
			host VARCHAR(255) NOT NULL,
			devices INTEGER NOT NULL`, "host", "server"),
		sqldb.Statements("compute_residences_first", `INSERT INTO compute_residences (consumer, server, host, devices)
			SELECT id, id, placed, devices FROM compute_servers WHERE placed <> ''`),
		sqldb.Table("compute_migrations", `
			id VARCHAR(64) NOT NULL PRIMARY KEY,
			number BIGINT NOT NULL,
			server VARCHAR(64) NOT NULL,
			kind VARCHAR(32) NOT NULL,
			status VARCHAR(32) NOT NULL,
			source VARCHAR(255) NOT NULL,
			destination VARCHAR(255) NOT NULL,
			old_flavor VARCHAR(255) NOT NULL,
			new_flavor VARCHAR(255) NOT NULL,
			begun BIGINT NOT NULL,
			updated BIGINT NOT NULL`, "server", "number"),
		sqldb.Table("compute_dead", `
			host VARCHAR(255) NOT NULL PRIMARY KEY,
			since BIGINT NOT NULL`),
		sqldb.Table("compute_cloud", `
			one INTEGER NOT NULL PRIMARY KEY,
			id VARCHAR(64) NOT NULL`),
	}, append(laterSchemaMigrations(), listMigrations()...)...)
}

// laterSchemaMigrations returns the migrations from the introduction of the lease on.
func laterSchemaMigrations() []sqldb.Migration {
	return []sqldb.Migration{
		sqldb.Table("compute_lease_owner", `
			one INTEGER NOT NULL PRIMARY KEY,
			instance VARCHAR(64) NOT NULL,
			host VARCHAR(255) NOT NULL,
			pid BIGINT NOT NULL,
			boot_id VARCHAR(255) NOT NULL,
			lock_id VARCHAR(255) NOT NULL,
			start_time VARCHAR(64) NOT NULL,
			since BIGINT NOT NULL`),
		sqldb.Table("compute_lease", `
			one INTEGER NOT NULL PRIMARY KEY,
			expiry BIGINT NOT NULL`),
		sqldb.Statements("compute_lease_first",
			`INSERT INTO compute_lease_owner (one, instance, host, pid, boot_id, lock_id, start_time, since)
				VALUES (1, '', '', 0, '', '', '', 0)`,
			`INSERT INTO compute_lease (one, expiry) VALUES (1, 0)`),
		sqldb.Table("compute_clean_requests", `
			host VARCHAR(255) NOT NULL,
			address VARCHAR(32) NOT NULL,
			asked BIGINT NOT NULL,
			refused TEXT NOT NULL,
			PRIMARY KEY (host, address)`),
		sqldb.Table("compute_epochs", `
			number BIGINT NOT NULL PRIMARY KEY,
			id VARCHAR(64) NOT NULL`),
		sqldb.Table("compute_epoch_ends", `
			host VARCHAR(255) NOT NULL,
			epoch BIGINT NOT NULL,
			revision BIGINT NOT NULL,
			PRIMARY KEY (host, epoch)`),
		sqldb.Table("compute_removals", `
			host VARCHAR(255) NOT NULL,
			consumer VARCHAR(64) NOT NULL,
			server VARCHAR(64) NOT NULL,
			PRIMARY KEY (host, consumer)`, "server"),
		recordsVersion(2),
		recordsVersion(3), // servers may be in the state `preparing`, without a request to Placement
		sqldb.Table("compute_disabled", `
			host VARCHAR(255) NOT NULL PRIMARY KEY,
			reason TEXT NOT NULL,
			since BIGINT NOT NULL`),
		sqldb.Table("compute_host_accounts", `
			host VARCHAR(255) NOT NULL PRIMARY KEY,
			account VARCHAR(255) NOT NULL,
			strategy VARCHAR(32) NOT NULL,
			bound BIGINT NOT NULL`),
		sqldb.Table("compute_keypairs", `
			user_id VARCHAR(255) NOT NULL,
			name VARCHAR(255) NOT NULL,
			number BIGINT NOT NULL,
			type VARCHAR(16) NOT NULL,
			public_key TEXT NOT NULL,
			fingerprint VARCHAR(255) NOT NULL,
			created BIGINT NOT NULL,
			PRIMARY KEY (user_id, name)`),
	}
}

// listMigrations returns the migrations for lists and sums of many servers. An index of a list has the filters, then
// the order, then the name, which a list shows and searches.
func listMigrations() []sqldb.Migration {
	return []sqldb.Migration{
		index("compute_servers", "project", "project, ended, created, id, name"),
		index("compute_servers", "all", "ended, created, id, name"),
		index("compute_servers", "host", "host, ended, created, id, name"),
		index("compute_servers", "project_status", "project, status, ended, created, id, name"),
		index("compute_servers", "status", "status, ended, created, id, name"),
		// What usages, limits and hypervisors sum up.
		column("compute_servers", "launched", "BIGINT"),
		column("compute_servers", "vcpus", "INTEGER"),
		column("compute_servers", "memory_mb", "INTEGER"),
		column("compute_servers", "disk_gb", "INTEGER"),
		column("compute_servers", "busy", "INTEGER"),
		{Name: "compute_servers_sizes_first", Run: fillSizeColumns},
		index("compute_servers", "size", "project, ended, vcpus, memory_mb"),
		index("compute_servers", "launch", "project, launched, id, ended"),
		index("compute_servers", "busy_host", "busy, ended, host"),
		recordsVersion(4), // servers may have ports
		recordsVersion(5), // ports may have devices, and servers keys and user data
		recordsVersion(6), // ports with devices may be attached and detached
		recordsVersion(7), // deletions of ports are kept until the ports are detached
	}
}

// recordsVersion returns a migration that changes nothing. After it, records may have this version. A release that
// reads only earlier versions does not start on a database with this migration. Records are rewritten when they change.
func recordsVersion(version int) sqldb.Migration {
	return sqldb.Statements(fmt.Sprintf("compute_records_%d", version))
}

// index returns a migration that creates an index of an existing table. It may be repeated after an interruption.
func index(table, name, columns string) sqldb.Migration {
	full := table + "_by_" + name
	return sqldb.Migration{Name: full, Run: func(ctx context.Context, tx *sqldb.Tx) error {
		create := "CREATE INDEX IF NOT EXISTS "
		if tx.Dialect == sqldb.MySQL {
			exists, err := existsInSchema(ctx, tx, "statistics", "index_name", table, full)
			if err != nil || exists {
				return err
			}
			create = "CREATE INDEX "
		}
		_, err := tx.Exec(ctx, create+full+" ON "+table+" ("+columns+")")
		return err
	}}
}

// existsInSchema reports whether a view of MySQL's information_schema has a row for a table with this name in a column.
func existsInSchema(ctx context.Context, tx *sqldb.Tx, view, column, table, name string) (bool, error) {
	var rows int
	err := tx.QueryRow(ctx, "SELECT COUNT(*) FROM information_schema."+view+
		" WHERE table_schema = DATABASE() AND table_name = ? AND "+column+" = ?", table, name).Scan(&rows)
	return rows > 0, err
}

// column returns a migration that adds a column of numbers to an existing table. It may be repeated after an
// interruption. Rows get the value 0.
func column(table, name, kind string) sqldb.Migration {
	return sqldb.Migration{Name: table + "_" + name, Run: func(ctx context.Context, tx *sqldb.Tx) error {
		if tx.Dialect == sqldb.MySQL {
			exists, err := existsInSchema(ctx, tx, "columns", "column_name", table, name)
			if err != nil || exists {
				return err
			}
		}
		_, err := tx.Exec(ctx, "ALTER TABLE "+table+" ADD COLUMN "+name+" "+kind+" NOT NULL DEFAULT 0")
		return err
	}}
}

// fillSizeColumns sets the sizeColumns of existing rows.
func fillSizeColumns(ctx context.Context, tx *sqldb.Tx) error {
	for last := ""; ; {
		records, err := readRecords(ctx, tx, `id > ? ORDER BY id LIMIT ?`, []any{last, chunk})
		if err != nil || len(records) == 0 {
			return err
		}
		servers, err := decodeListed(records)
		if err != nil {
			return err
		}
		for _, s := range servers {
			if _, err := tx.Exec(ctx, `UPDATE compute_servers SET launched = ?, vcpus = ?, memory_mb = ?, disk_gb = ?,
				busy = ? WHERE id = ?`, append(sizeColumns(s), s.ID)...); err != nil {
				return err
			}
		}
		last = records[len(records)-1].id
	}
}

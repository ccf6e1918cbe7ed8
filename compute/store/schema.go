package store

import (
	"context"
	"time"

	"github.com/openberth/berth/sqldb"
)

// versions is the table that lists the steps done.
const versions = "compute_versions"

// steps are the changes of the schema, in order. A released one never changes.
//
// Moments are whole microseconds since 1970 in UTC, 0 for none, the same on every dialect.
func steps() []sqldb.Step {
	return []sqldb.Step{
		sqldb.Statements("flavors", `CREATE TABLE IF NOT EXISTS compute_flavors (
			id VARCHAR(255) NOT NULL PRIMARY KEY,
			name VARCHAR(255) NOT NULL UNIQUE,
			description VARCHAR(2000) NOT NULL,
			vcpus INTEGER NOT NULL,
			memory_mb INTEGER NOT NULL,
			disk_gb INTEGER NOT NULL,
			ephemeral_gb INTEGER NOT NULL,
			swap_mb INTEGER NOT NULL,
			rxtx_factor DOUBLE PRECISION NOT NULL,
			is_public INTEGER NOT NULL,
			is_disabled INTEGER NOT NULL)`),
		sqldb.Statements("extra specs", `CREATE TABLE IF NOT EXISTS compute_flavor_specs (
			flavor_id VARCHAR(255) NOT NULL,
			spec VARCHAR(255) NOT NULL,
			content VARCHAR(4000) NOT NULL,
			PRIMARY KEY (flavor_id, spec))`),
		{Name: "servers", Run: createServers},
		sqldb.Statements("servers by host", `CREATE INDEX compute_servers_placed ON compute_servers (placed)`),
		sqldb.Statements("servers by what is due", `CREATE INDEX compute_servers_due ON compute_servers (due, id)`),
		sqldb.Statements("servers by age", `CREATE INDEX compute_servers_created ON compute_servers (created, id)`),
		sqldb.Statements("servers by end", `CREATE INDEX compute_servers_ended ON compute_servers (ended, id)`),
		{Name: "hosts", Run: createHosts},
		sqldb.Statements("hosts by provider", `CREATE INDEX compute_hosts_provider ON compute_hosts (provider)`),
	}
}

// text is the type of a column without a limit that a record could reach; MySQL's TEXT ends at 64 KiB.
func text(d sqldb.Dialect) string {
	if d == sqldb.MySQL {
		return "MEDIUMTEXT"
	}
	return "TEXT"
}

func createServers(ctx context.Context, tx *sqldb.Tx) error {
	_, err := tx.Exec(ctx, `CREATE TABLE IF NOT EXISTS compute_servers (
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
		record `+text(tx.Dialect)+` NOT NULL)`)
	return err
}

func createHosts(ctx context.Context, tx *sqldb.Tx) error {
	_, err := tx.Exec(ctx, `CREATE TABLE IF NOT EXISTS compute_hosts (
		name VARCHAR(255) NOT NULL PRIMARY KEY,
		provider VARCHAR(64) NOT NULL,
		revision BIGINT NOT NULL,
		seen BIGINT NOT NULL,
		report `+text(tx.Dialect)+` NOT NULL)`)
	return err
}

// moment is a time as a column has it.
func moment(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

package store

import (
	"fmt"

	"github.com/openberth/berth/sqldb"
)

// versionTable is the table that lists the completed migrations.
const versionTable = "network_versions"

// objectColumns are the columns of every table of objects.
const objectColumns = `
	id VARCHAR(64) NOT NULL PRIMARY KEY,
	project VARCHAR(255) NOT NULL,
	network VARCHAR(64) NOT NULL,
	policy VARCHAR(64) NOT NULL,
	host VARCHAR(255) NOT NULL,
	device VARCHAR(255) NOT NULL,
	revision BIGINT NOT NULL,
	record LARGE NOT NULL`

// schemaMigrations returns the migrations of the schema, in order. A released migration must not change.
func schemaMigrations() []sqldb.Migration {
	return []sqldb.Migration{
		sqldb.Table("network_cloud", `
			one INTEGER NOT NULL PRIMARY KEY,
			id VARCHAR(64) NOT NULL,
			revision BIGINT NOT NULL`),
		sqldb.Table("network_networks", objectColumns, "project", "policy"),
		sqldb.Table("network_subnets", objectColumns, "network"),
		sqldb.Table("network_ports", objectColumns, "project", "network", "policy", "host, revision", "device"),
		sqldb.Table("network_policies", objectColumns, "project"),
		sqldb.Table("network_agents", objectColumns, "host"),
		sqldb.Table("network_quotas", objectColumns),
		sqldb.Table("network_changes", objectColumns),
		sqldb.Table("network_addresses", `
			subnet VARCHAR(64) NOT NULL,
			address VARCHAR(64) NOT NULL,
			port VARCHAR(64) NOT NULL,
			PRIMARY KEY (subnet, address)`, "port"),
		sqldb.Table("network_macs", `
			network VARCHAR(64) NOT NULL,
			mac VARCHAR(32) NOT NULL,
			port VARCHAR(64) NOT NULL,
			PRIMARY KEY (network, mac)`, "port"),
		sqldb.Table("network_deleted_ports", `
			port VARCHAR(64) NOT NULL PRIMARY KEY,
			host VARCHAR(255) NOT NULL,
			revision BIGINT NOT NULL`, "host, revision", "revision"),
		sqldb.Table("network_host_accounts", `
			host VARCHAR(255) NOT NULL PRIMARY KEY,
			account VARCHAR(255) NOT NULL,
			strategy VARCHAR(32) NOT NULL`),
		sqldb.Table("network_events", objectColumns),
		recordsVersion(2),
		recordsVersion(3),
	}
}

// recordsVersion returns the migration of a version of the records. It changes nothing: a Berth that reads only earlier
// versions does not start on a database with this migration. Records are rewritten when they change.
func recordsVersion(version int) sqldb.Migration {
	return sqldb.Statements(fmt.Sprintf("network_records_%d", version))
}

package store

import (
	"context"
	"fmt"
	"strings"

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
		table("network_cloud", `
			one INTEGER NOT NULL PRIMARY KEY,
			id VARCHAR(64) NOT NULL,
			revision BIGINT NOT NULL`),
		table("network_networks", objectColumns, "project", "policy"),
		table("network_subnets", objectColumns, "network"),
		table("network_ports", objectColumns, "project", "network", "policy", "host, revision", "device"),
		table("network_policies", objectColumns, "project"),
		table("network_agents", objectColumns, "host"),
		table("network_quotas", objectColumns),
		table("network_changes", objectColumns),
		table("network_addresses", `
			subnet VARCHAR(64) NOT NULL,
			address VARCHAR(64) NOT NULL,
			port VARCHAR(64) NOT NULL,
			PRIMARY KEY (subnet, address)`, "port"),
		table("network_macs", `
			network VARCHAR(64) NOT NULL,
			mac VARCHAR(32) NOT NULL,
			port VARCHAR(64) NOT NULL,
			PRIMARY KEY (network, mac)`, "port"),
		table("network_deleted_ports", `
			port VARCHAR(64) NOT NULL PRIMARY KEY,
			host VARCHAR(255) NOT NULL,
			revision BIGINT NOT NULL`, "host, revision", "revision"),
		table("network_host_accounts", `
			host VARCHAR(255) NOT NULL PRIMARY KEY,
			account VARCHAR(255) NOT NULL,
			strategy VARCHAR(32) NOT NULL`),
	}
}

// table returns a migration that creates a table and its indexes. It may be repeated after an interruption. LARGE is a
// text type without a practical limit; MySQL's TEXT ends at 64 KiB. MySQL has no CREATE INDEX IF NOT EXISTS, so indexes
// are part of the table there; its collation is binary, as on the other dialects.
func table(name, columns string, indexes ...string) sqldb.Migration {
	return sqldb.Migration{Name: name, Run: func(ctx context.Context, tx *sqldb.Tx) error {
		if tx.Dialect == sqldb.MySQL {
			inside := strings.ReplaceAll(columns, "LARGE", "MEDIUMTEXT")
			for i, on := range indexes {
				inside += fmt.Sprintf(", INDEX %s_%d (%s)", name, i+1, on)
			}
			_, err := tx.Exec(ctx, "CREATE TABLE IF NOT EXISTS "+name+" ("+inside+
				") CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
			return err
		}
		create := "CREATE TABLE IF NOT EXISTS " + name + " (" + strings.ReplaceAll(columns, "LARGE", "TEXT") + ")"
		if _, err := tx.Exec(ctx, create); err != nil {
			return err
		}
		for i, on := range indexes {
			index := fmt.Sprintf("CREATE INDEX IF NOT EXISTS %s_%d ON %s (%s)", name, i+1, name, on)
			if _, err := tx.Exec(ctx, index); err != nil {
				return err
			}
		}
		return nil
	}}
}

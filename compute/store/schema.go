package store

import (
	"github.com/openberth/berth/sqldb"
)

// schema are the migrations of the tables, in order. A released migration must not change. An index of a list has
// the filters, then the order, then the name, which a list shows and searches.
//
// Times are whole microseconds since 1970 in UTC, 0 for none, on every dialect.
var schema = []sqldb.Migration{
	sqldb.Table("compute_flavors", `
			id VARCHAR(255) NOT NULL PRIMARY KEY,
			name VARCHAR(255) NOT NULL UNIQUE,
			description LARGE NOT NULL,
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
	sqldb.Table("compute_flavor_access", `
			flavor_id VARCHAR(255) NOT NULL,
			project VARCHAR(255) NOT NULL,
			PRIMARY KEY (flavor_id, project)`),
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
			devices INTEGER NOT NULL,
			created BIGINT NOT NULL,
			updated BIGINT NOT NULL,
			ended BIGINT NOT NULL,
			launched BIGINT NOT NULL,
			vcpus INTEGER NOT NULL,
			memory_mb INTEGER NOT NULL,
			disk_gb BIGINT NOT NULL,
			busy INTEGER NOT NULL,
			revision BIGINT NOT NULL,
			record LARGE NOT NULL`,
		"due, id", "created, id",
		"project: project, ended, created, id, name", "all: ended, created, id, name",
		"host: host, ended, created, id, name", "project_status: project, status, ended, created, id, name",
		"status: status, ended, created, id, name",
		// what usages and hypervisors sum up
		"launch: project, launched, id, ended",
		"busy_host: busy, ended, host"),
	sqldb.Table("compute_hosts", `
			name VARCHAR(255) NOT NULL PRIMARY KEY,
			provider VARCHAR(64) NOT NULL,
			revision BIGINT NOT NULL,
			seen BIGINT NOT NULL,
			reports BIGINT NOT NULL,
			report LARGE NOT NULL`, "provider"),
	sqldb.Table("compute_residences", `
			consumer VARCHAR(64) NOT NULL PRIMARY KEY,
			server VARCHAR(64) NOT NULL,
			host VARCHAR(255) NOT NULL,
			devices INTEGER NOT NULL`, "host", "server"),
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
			user_id VARCHAR(255) NOT NULL,
			project VARCHAR(255) NOT NULL,
			begun BIGINT NOT NULL,
			updated BIGINT NOT NULL`, "server", "number"),
	sqldb.Table("compute_dead", `
			host VARCHAR(255) NOT NULL PRIMARY KEY,
			since BIGINT NOT NULL`),
	sqldb.Table("compute_cloud", `
			one INTEGER NOT NULL PRIMARY KEY,
			id VARCHAR(64) NOT NULL`),
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
	sqldb.Table("compute_disabled", `
			host VARCHAR(255) NOT NULL PRIMARY KEY,
			reason TEXT NOT NULL,
			since BIGINT NOT NULL`),
	sqldb.Table("compute_disabled_devices", `
			host VARCHAR(255) NOT NULL,
			id VARCHAR(64) NOT NULL,
			address VARCHAR(32) NOT NULL,
			reason TEXT NOT NULL,
			since BIGINT NOT NULL,
			until_time BIGINT NOT NULL,
			enable INTEGER NOT NULL,
			reported INTEGER NOT NULL,
			PRIMARY KEY (host, id)`),
	sqldb.Table("compute_host_accounts", `
			host VARCHAR(255) NOT NULL PRIMARY KEY,
			account VARCHAR(255) NOT NULL,
			strategy VARCHAR(32) NOT NULL,
			bound BIGINT NOT NULL`),
	// limits that are set for a project, for a user in a project, or for a quota class, which is a user of no project
	sqldb.Table("compute_quotas", `
			project VARCHAR(255) NOT NULL,
			user_id VARCHAR(255) NOT NULL,
			resource VARCHAR(255) NOT NULL,
			amount BIGINT NOT NULL,
			PRIMARY KEY (project, user_id, resource)`),
	// what each server counts against the limits of its project
	sqldb.Table("compute_quota_use", `
			server VARCHAR(64) NOT NULL PRIMARY KEY,
			project VARCHAR(255) NOT NULL,
			user_id VARCHAR(255) NOT NULL,
			amounts TEXT NOT NULL`, "project"),
	sqldb.Table("compute_quota_locks", `
			owner VARCHAR(300) NOT NULL PRIMARY KEY,
			changes BIGINT NOT NULL`),
	sqldb.Table("compute_keypairs", `
			user_id VARCHAR(255) NOT NULL,
			name VARCHAR(255) NOT NULL,
			number BIGINT NOT NULL,
			type VARCHAR(16) NOT NULL,
			public_key TEXT NOT NULL,
			fingerprint VARCHAR(255) NOT NULL,
			created BIGINT NOT NULL,
			PRIMARY KEY (user_id, name)`),
	sqldb.Table("compute_aggregates", `
			id BIGINT NOT NULL PRIMARY KEY,
			uuid VARCHAR(64) NOT NULL,
			name VARCHAR(255) NOT NULL UNIQUE,
			created BIGINT NOT NULL,
			updated BIGINT NOT NULL`),
	sqldb.Table("compute_aggregate_hosts", `
			aggregate BIGINT NOT NULL,
			host VARCHAR(255) NOT NULL,
			PRIMARY KEY (aggregate, host)`),
	sqldb.Table("compute_aggregate_metadata", `
			aggregate BIGINT NOT NULL,
			name VARCHAR(255) NOT NULL,
			content TEXT NOT NULL,
			PRIMARY KEY (aggregate, name)`),
	// what Placement may still have of the aggregates of a host, and should not
	sqldb.Table("compute_aggregate_removals", `
			host VARCHAR(255) NOT NULL,
			uuid VARCHAR(64) NOT NULL,
			since BIGINT NOT NULL,
			PRIMARY KEY (host, uuid)`),
	sqldb.Table("compute_server_groups", `
			id VARCHAR(64) NOT NULL PRIMARY KEY,
			project VARCHAR(255) NOT NULL,
			user_id VARCHAR(255) NOT NULL,
			name VARCHAR(255) NOT NULL,
			policy VARCHAR(32) NOT NULL,
			max_per_host INTEGER NOT NULL,
			created BIGINT NOT NULL,
			revision BIGINT NOT NULL`, "project"),
	// hosts are those of lifecycle.Server.GroupHosts, separated by spaces
	sqldb.Table("compute_group_members", `
			server VARCHAR(64) NOT NULL PRIMARY KEY,
			group_id VARCHAR(64) NOT NULL,
			hosts TEXT NOT NULL`, "group_id"),
}

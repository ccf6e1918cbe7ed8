package store

import "github.com/openberth/berth/sqldb"

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

// schema are the migrations of the tables, in order. A released migration must not change.
var schema = []sqldb.Migration{
	sqldb.Table("network_cloud", `
			one INTEGER NOT NULL PRIMARY KEY,
			id VARCHAR(64) NOT NULL,
			revision BIGINT NOT NULL`),
	sqldb.Table("network_networks", objectColumns, "project", "policy"),
	sqldb.Table("network_subnets", objectColumns, "network", "policy"),
	sqldb.Table("network_ports", objectColumns, "project", "network", "policy", "host, revision", "device"),
	sqldb.Table("network_policies", objectColumns, "project"),
	sqldb.Table("network_agents", objectColumns, "host", "device"),
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
	sqldb.Table("network_rbac_policies", objectColumns, "project", "policy", "host"),
	sqldb.Table("network_subnet_pools", objectColumns, "project"),
	sqldb.Table("network_security_groups", objectColumns, "project"),
	sqldb.Table("network_security_group_rules", objectColumns, "project", "policy", "device"),
	sqldb.Table("network_group_members", `
			security_group VARCHAR(64) NOT NULL,
			port VARCHAR(64) NOT NULL,
			address VARCHAR(64) NOT NULL,
			PRIMARY KEY (security_group, port, address)`, "port"),
	sqldb.Table("network_group_changes", `
			security_group VARCHAR(64) NOT NULL PRIMARY KEY,
			revision BIGINT NOT NULL`),
	sqldb.Table("network_arriving_ports", `
			port VARCHAR(64) NOT NULL,
			host VARCHAR(255) NOT NULL,
			PRIMARY KEY (port, host)`, "host"),
}

package store

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"

	"github.com/openberth/berth/sqldb"
)

// member is an address of a port in a security group; the address is empty for a port without any.
type member struct{ group, address string }

// membersOf returns what a port adds to its security groups: its addresses, and those of its address pairs.
func membersOf(p Port) map[member]bool {
	all := map[member]bool{}
	for _, g := range p.Groups {
		all[member{g, ""}] = true
		for _, ip := range p.FixedIPs {
			all[member{g, ip.Address}] = true
		}
		for _, pair := range p.Pairs {
			all[member{g, pair.Address}] = true
		}
	}
	return all
}

// members returns what a port has added to security groups.
func (tx *Tx) members(ctx context.Context, port string) ([]member, error) {
	return sqldb.QueryList(ctx, tx.tx, `SELECT security_group, address FROM network_group_members WHERE port = ?`,
		[]any{port}, func(rows *sql.Rows) (m member, err error) {
			err = rows.Scan(&m.group, &m.address)
			return m, err
		})
}

// setMembers makes a port these members of security groups, and no others, and records the revision at which the
// members of a group changed. had is what the port has added to groups.
func (tx *Tx) setMembers(ctx context.Context, port string, had []member, want map[member]bool) error {
	added, changed := maps.Clone(want), map[string]bool{}
	for _, m := range had {
		if want[m] {
			delete(added, m)
			continue
		}
		changed[m.group] = true
		if _, err := tx.tx.Exec(ctx, `DELETE FROM network_group_members
			WHERE security_group = ? AND port = ? AND address = ?`,
			m.group, port, m.address); err != nil {
			return err
		}
	}
	for m := range added {
		changed[m.group] = true
		if _, err := tx.tx.Exec(ctx, `INSERT INTO network_group_members (security_group, port, address) VALUES (?, ?, ?)`,
			m.group, port, m.address); err != nil {
			return err
		}
	}
	for _, group := range slices.Sorted(maps.Keys(changed)) {
		if err := tx.tx.Upsert(ctx, "network_group_changes", []string{"security_group"}, []string{"revision"}, group,
			tx.Revision); err != nil {
			return err
		}
	}
	return nil
}

// Members returns the addresses and networks of the members of a security group, sorted as texts.
func (tx *Tx) Members(ctx context.Context, group string) ([]string, error) {
	return tx.texts(ctx, `SELECT DISTINCT address FROM network_group_members WHERE security_group = ? AND address <> ''
		ORDER BY address`, group)
}

// PortsOfGroup returns the ids of the ports that have a security group, sorted.
func (tx *Tx) PortsOfGroup(ctx context.Context, group string) ([]string, error) {
	return tx.texts(ctx, `SELECT DISTINCT port FROM network_group_members WHERE security_group = ? ORDER BY port`, group)
}

// texts returns the result of a query with one text column.
func (tx *Tx) texts(ctx context.Context, query string, args ...any) ([]string, error) {
	return sqldb.QueryList(ctx, tx.tx, query, args, func(rows *sql.Rows) (text string, err error) {
		err = rows.Scan(&text)
		return text, err
	})
}

// ChangedMembers returns the security groups whose members have changed after a revision.
func (tx *Tx) ChangedMembers(ctx context.Context, since int64) ([]string, error) {
	return tx.texts(ctx, `SELECT security_group FROM network_group_changes WHERE revision > ?`, since)
}

// ForgetGroup removes what is recorded of the members of a security group that is deleted.
func (tx *Tx) ForgetGroup(ctx context.Context, group string) error {
	_, err := tx.tx.Exec(ctx, `DELETE FROM network_group_changes WHERE security_group = ?`, group)
	return err
}

// HostMark returns the number of rows, and the revision of the newest one, of each table that the networks of hosts
// depend on: a text that is another one after each change.
func (tx *Tx) HostMark(ctx context.Context) (mark string, err error) {
	for _, table := range []string{"network_networks", "network_subnets", "network_ports", "network_policies",
		"network_security_groups", "network_security_group_rules", "network_group_changes"} {
		var count, newest int64
		row := tx.tx.QueryRow(ctx, `SELECT COUNT(*), COALESCE(MAX(revision), 0) FROM `+table)
		if err := row.Scan(&count, &newest); err != nil {
			return "", err
		}
		mark += fmt.Sprint(count, "@", newest, " ")
	}
	return mark, nil
}

package store

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/openberth/berth/sqldb"
)

// Addresses returns the addresses of a subnet that ports have, by address.
func (tx *Tx) Addresses(ctx context.Context, subnet string) (map[string]string, error) {
	return tx.pairs(ctx, `SELECT address, port FROM network_addresses WHERE subnet = ?`, subnet)
}

// Taken returns which of some addresses of a subnet ports have.
func (tx *Tx) Taken(ctx context.Context, subnet string, addresses []string) (map[string]bool, error) {
	args := []any{subnet}
	for _, a := range addresses {
		args = append(args, a)
	}
	found, err := sqldb.QueryTexts(ctx, tx.tx, `SELECT address FROM network_addresses WHERE subnet = ? AND address IN (`+
		strings.TrimSuffix(strings.Repeat("?, ", len(addresses)), ", ")+`)`, args...)
	taken := map[string]bool{}
	for _, a := range found {
		taken[a] = true
	}
	return taken, err
}

// Lowest returns the address that SetLowest has set for a subnet with these pools, or a lower one that a port of this
// process has released since; ok is false if there is none. Addresses before it can be free if another process has
// released them.
func (tx *Tx) Lowest(subnet, pools string) (at netip.Addr, ok bool) {
	l, ok := tx.lowest[subnet]
	if !ok {
		tx.store.mu.Lock()
		defer tx.store.mu.Unlock()
		l, ok = tx.store.lowest[subnet]
	}
	return l.at, ok && l.pools == pools
}

// SetLowest sets the result of Lowest: an address that was the lowest free one. Other transactions have it once this
// one is committed.
func (tx *Tx) SetLowest(subnet, pools string, at netip.Addr) {
	if tx.lowest == nil {
		tx.lowest = map[string]lowest{}
	}
	tx.lowest[subnet] = lowest{pools, at}
}

// maxLowest is the largest number of subnets for which Lowest is kept.
const maxLowest = 10_000

// lowest is where the search for a free address of a subnet begins. pools is the text of the subnet's pools then.
type lowest struct {
	pools string
	at    netip.Addr
}

// keepLowest keeps what a transaction that was committed has found and released.
func (s *Store) keepLowest(tx *Tx) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lowest) > maxLowest { // also those of deleted subnets
		clear(s.lowest)
	}
	maps.Copy(s.lowest, tx.lowest)
	for _, ip := range tx.released {
		l, known := s.lowest[ip.Subnet]
		if at, err := netip.ParseAddr(ip.Address); known && err == nil && at.Less(l.at) {
			s.lowest[ip.Subnet] = lowest{l.pools, at}
		}
	}
}

// pairs returns the result of a query with two text columns.
func (tx *Tx) pairs(ctx context.Context, query string, args ...any) (map[string]string, error) {
	return sqldb.QueryMap[string, string](ctx, tx.tx, query, args...)
}

// AddressOwner returns the port that has an address of a subnet; empty if there is none.
func (tx *Tx) AddressOwner(ctx context.Context, subnet, at string) (port string, err error) {
	row := tx.tx.QueryRow(ctx, `SELECT port FROM network_addresses WHERE subnet = ? AND address = ?`, subnet, at)
	if err = row.Scan(&port); errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return port, err
}

// MACOwner returns the port that has a MAC address in a network; empty if there is none.
func (tx *Tx) MACOwner(ctx context.Context, network, mac string) (port string, err error) {
	row := tx.tx.QueryRow(ctx, `SELECT port FROM network_macs WHERE network = ? AND mac = ?`, network, mac)
	if err = row.Scan(&port); errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return port, err
}

// PutPort writes a port with its addresses.
func (tx *Tx) PutPort(ctx context.Context, p *Port) error {
	if err := tx.dropAddresses(ctx, p.ID); err != nil {
		return err
	}
	had, err := tx.members(ctx, p.ID)
	if err != nil {
		return err
	}
	return tx.putPort(ctx, p, had)
}

// AddPort is PutPort for a port that does not exist.
func (tx *Tx) AddPort(ctx context.Context, p *Port) error { return tx.putPort(ctx, p, nil) }

// ReplacePort is PutPort for a port that this transaction has read as old. It writes addresses and members of groups
// only if they change.
func (tx *Tx) ReplacePort(ctx context.Context, old Port, p *Port) error {
	same := old.Network == p.Network && old.MAC == p.MAC && slices.Equal(old.FixedIPs, p.FixedIPs) &&
		maps.Equal(membersOf(old), membersOf(*p)) &&
		slices.EqualFunc(old.Inactive, p.Inactive, func(a, b InactiveBinding) bool { return a.Host == b.Host })
	if same {
		return Put(ctx, tx, p)
	}
	return tx.PutPort(ctx, p)
}

// putPort writes a port that has no addresses, and is the members had of its groups.
func (tx *Tx) putPort(ctx context.Context, p *Port, had []member) error {
	_, err := tx.tx.Exec(ctx, `INSERT INTO network_macs (network, mac, port) VALUES (?, ?, ?)`, p.Network, p.MAC, p.ID)
	if err != nil {
		return duplicate(err)
	}
	for _, ip := range p.FixedIPs {
		_, err := tx.tx.Exec(ctx, `INSERT INTO network_addresses (subnet, address, port) VALUES (?, ?, ?)`,
			ip.Subnet, ip.Address, p.ID)
		if err != nil {
			return duplicate(err)
		}
	}
	if err := tx.setMembers(ctx, p.ID, had, membersOf(*p)); err != nil {
		return err
	}
	for _, b := range p.Inactive {
		_, err := tx.tx.Exec(ctx, `INSERT INTO network_arriving_ports (port, host) VALUES (?, ?)`, p.ID, b.Host)
		if err != nil {
			return duplicate(err)
		}
	}
	return Put(ctx, tx, p)
}

// Reserve gives a stored port the addresses, and the memberships of groups, of what it becomes when a recorded change
// has ended, in addition to its own: no other port may get these addresses meanwhile, and the groups and subnets must
// stay. PutPort of what the port has then removes the others.
func (tx *Tx) Reserve(ctx context.Context, old, next Port) error {
	if next.MAC != old.MAC {
		_, err := tx.tx.Exec(ctx, `INSERT INTO network_macs (network, mac, port) VALUES (?, ?, ?)`, next.Network,
			next.MAC, next.ID)
		if err != nil {
			return duplicate(err)
		}
	}
	for _, ip := range next.FixedIPs {
		if slices.Contains(old.FixedIPs, ip) {
			continue
		}
		_, err := tx.tx.Exec(ctx, `INSERT INTO network_addresses (subnet, address, port) VALUES (?, ?, ?)`, ip.Subnet,
			ip.Address, next.ID)
		if err != nil {
			return duplicate(err)
		}
	}
	had := membersOf(old)
	both := membersOf(next)
	maps.Copy(both, had)
	return tx.setMembers(ctx, next.ID, slices.Collect(maps.Keys(had)), both)
}

// TunnelEnds returns the addresses of the tunnels of agents, by host.
func (tx *Tx) TunnelEnds(ctx context.Context) (map[string]string, error) {
	return tx.pairs(ctx, `SELECT host, device FROM network_agents WHERE device > ''`)
}

// Arriving returns the ports that have an inactive binding to a host.
func (tx *Tx) Arriving(ctx context.Context, host string) ([]string, error) {
	ports, err := tx.pairs(ctx, `SELECT port, host FROM network_arriving_ports WHERE host = ?`, host)
	return slices.Sorted(maps.Keys(ports)), err
}

// dropAddresses removes the addresses of a port, which are free once the transaction is committed.
func (tx *Tx) dropAddresses(ctx context.Context, port string) error {
	had, err := tx.pairs(ctx, `SELECT address, subnet FROM network_addresses WHERE port = ?`, port)
	if err != nil {
		return err
	}
	for at, subnet := range had {
		tx.released = append(tx.released, FixedIP{Subnet: subnet, Address: at})
	}
	for _, table := range []string{"network_addresses", "network_macs", "network_arriving_ports"} {
		if _, err := tx.tx.Exec(ctx, `DELETE FROM `+table+` WHERE port = ?`, port); err != nil {
			return err
		}
	}
	return nil
}

// DeletePort removes a port with its addresses. If the port is bound, its host receives the removal.
func (tx *Tx) DeletePort(ctx context.Context, p Port) error {
	if err := tx.dropAddresses(ctx, p.ID); err != nil {
		return err
	}
	if err := tx.LeaveHost(ctx, p); err != nil {
		return err
	}
	had, err := tx.members(ctx, p.ID)
	if err != nil {
		return err
	}
	if err := tx.setMembers(ctx, p.ID, had, nil); err != nil {
		return err
	}
	return Delete[Port](ctx, tx, p.ID)
}

// LeaveHost records that a port is no longer bound to its host, for the agent of that host.
func (tx *Tx) LeaveHost(ctx context.Context, p Port) error {
	if p.Binding.Host == "" {
		return nil
	}
	if err := tx.tx.Upsert(ctx, "network_deleted_ports", []string{"port"}, []string{"host", "revision"}, p.ID,
		p.Binding.Host, tx.Revision); err != nil {
		return err
	}
	_, err := tx.tx.Exec(ctx, `DELETE FROM network_deleted_ports WHERE revision <= ?`,
		tx.Revision-tx.store.KeptRemovals)
	return err
}

// HasRemovals reports whether all removals since a revision are kept. newest is the revision of the newest object.
func (tx *Tx) HasRemovals(since, newest int64) bool { return since >= newest-tx.store.KeptRemovals }

// Left returns the ports that have left a host since a revision and were not bound to it again.
func (tx *Tx) Left(ctx context.Context, host string, since int64) ([]string, error) {
	left, err := tx.pairs(ctx, `SELECT port, host FROM network_deleted_ports WHERE host = ? AND revision > ?`, host, since)
	if err != nil {
		return nil, err
	}
	bound, err := List[Port](ctx, tx, Filter{Hosts: []string{host}})
	if err != nil {
		return nil, err
	}
	for _, p := range bound {
		delete(left, p.ID)
	}
	list := []string{}
	for port := range left {
		list = append(list, port)
	}
	return list, nil
}

// HostAccount returns the account to which a host is bound and the auth_strategy that the account belongs to; empty if
// it is not bound.
func (tx *Tx) HostAccount(ctx context.Context, host string) (account, strategy string, err error) {
	row := tx.tx.QueryRow(ctx, `SELECT account, strategy FROM network_host_accounts WHERE host = ?`, host)
	if err = row.Scan(&account, &strategy); errors.Is(err, sql.ErrNoRows) {
		return "", "", nil
	}
	return account, strategy, err
}

// BindHost binds a host to an account; it replaces another binding.
func (tx *Tx) BindHost(ctx context.Context, host, account, strategy string) error {
	return tx.tx.Upsert(ctx, "network_host_accounts", []string{"host"}, []string{"account", "strategy"}, host, account,
		strategy)
}

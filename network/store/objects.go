package store

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strings"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/sqldb"
)

// Object is a pointer to a record that has a table.
type Object interface {
	Common() *Base
	table() string
	columns() columns
}

// columns are what queries filter by, beside the id and the project.
type columns struct{ network, policy, host, device string }

func (*Network) table() string { return "network_networks" }
func (*Subnet) table() string  { return "network_subnets" }
func (*Port) table() string    { return "network_ports" }
func (*Policy) table() string  { return "network_policies" }
func (*Agent) table() string   { return "network_agents" }
func (*Quota) table() string   { return "network_quotas" }
func (*Change) table() string  { return "network_changes" }
func (*Event) table() string   { return "network_events" }

func (*RBACPolicy) table() string { return "network_rbac_policies" }
func (*SubnetPool) table() string { return "network_subnet_pools" }

func (p *RBACPolicy) columns() columns { return columns{policy: p.Object, host: p.Target} }
func (*SubnetPool) columns() columns   { return columns{} }

func (*SecurityGroup) table() string     { return "network_security_groups" }
func (*SecurityGroupRule) table() string { return "network_security_group_rules" }

func (n *Network) columns() columns { return columns{policy: n.Policy} }
func (s *Subnet) columns() columns  { return columns{network: s.Network, policy: s.SubnetPool} }
func (*Policy) columns() columns    { return columns{} }
func (*Quota) columns() columns     { return columns{} }
func (*Change) columns() columns    { return columns{} }
func (e *Event) columns() columns   { return columns{device: e.Server} }

func (*SecurityGroup) columns() columns { return columns{} }

// columns has the group of a rule as its policy, and its remote group as its device.
func (r *SecurityGroupRule) columns() columns {
	return columns{policy: r.Group, device: r.RemoteGroup}
}

// columns has the address of the tunnels of an agent as its device.
func (a *Agent) columns() columns { return columns{host: a.Host, device: a.Tunnel} }

func (p *Port) columns() columns {
	return columns{network: p.Network, policy: p.Policy, host: p.Binding.Host, device: p.Device}
}

// Pointer is the constraint of the pointer type of a record.
type Pointer[T any] interface {
	*T
	Object
}

// Get returns an object. found is false if it does not exist.
func Get[T any, P Pointer[T]](ctx context.Context, tx *Tx, id string) (object T, found bool, err error) {
	var record string
	row := tx.tx.QueryRow(ctx, `SELECT record FROM `+P(&object).table()+` WHERE id = ?`, id)
	if err = row.Scan(&record); errors.Is(err, sql.ErrNoRows) {
		return object, false, nil
	}
	if err == nil {
		err = decode(record, P(&object))
	}
	return object, err == nil, err
}

// WithPolicy returns a port with its network and its effective QoS policy, by one statement. found is false if the port
// does not exist.
func WithPolicy(ctx context.Context, tx *Tx, id string) (p Port, n Network, policy Policy, found bool, err error) {
	var of, with, under string
	row := tx.tx.QueryRow(ctx, `SELECT p.record, COALESCE(n.record, ''), COALESCE(q.record, '') FROM network_ports p
		LEFT JOIN network_networks n ON n.id = p.network
		LEFT JOIN network_policies q ON q.id = CASE WHEN p.policy <> '' THEN p.policy ELSE n.policy END
		WHERE p.id = ?`, id)
	if err = row.Scan(&of, &with, &under); errors.Is(err, sql.ErrNoRows) {
		return p, n, policy, false, nil
	}
	if err == nil {
		err = decode(of, &p)
	}
	if err == nil && with != "" {
		err = decode(with, &n)
	}
	if err == nil && under != "" {
		err = decode(under, &policy)
	}
	return p, n, policy, err == nil, err
}

// Put inserts or replaces an object.
func Put[T any, P Pointer[T]](ctx context.Context, tx *Tx, object *T) error {
	p := P(object)
	b, c := p.Common(), p.columns()
	record, err := json.Marshal(object)
	if err != nil {
		return fault.Wrap(fault.Internal, err)
	}
	err = tx.tx.Upsert(ctx, p.table(), []string{"id"},
		[]string{"project", "network", "policy", "host", "device", "revision", "record"},
		b.ID, b.Project, c.network, c.policy, c.host, c.device, tx.Revision, string(record))
	return err
}

// Delete removes an object.
func Delete[T any, P Pointer[T]](ctx context.Context, tx *Tx, id string) error {
	var object T
	_, err := tx.tx.Exec(ctx, `DELETE FROM `+P(&object).table()+` WHERE id = ?`, id)
	return err
}

// Filter selects objects; an empty list does not filter. Objects of the kind must have the field, see columns.
type Filter struct {
	IDs      []string
	Projects []string
	Networks []string
	Policies []string
	Hosts    []string
	Devices  []string
	Since    int64 // objects written at a later revision; 0: all
}

// chunk is the maximum number of values of one condition; a longer list does not filter, so the caller must filter too.
const chunk = 500

func (f Filter) where() (string, []any) {
	var conditions []string
	var args []any
	for _, c := range []struct {
		column string
		values []string
	}{{"id", f.IDs}, {"project", f.Projects}, {"network", f.Networks}, {"policy", f.Policies}, {"host", f.Hosts},
		{"device", f.Devices}} {
		if len(c.values) == 0 || len(c.values) > chunk {
			continue
		}
		conditions = append(conditions, c.column+" IN ("+strings.TrimSuffix(strings.Repeat("?, ", len(c.values)), ", ")+")")
		for _, v := range c.values {
			args = append(args, v)
		}
	}
	if f.Since > 0 {
		conditions, args = append(conditions, "revision > ?"), append(args, f.Since)
	}
	if len(conditions) == 0 {
		return "", nil
	}
	return " WHERE " + strings.Join(conditions, " AND "), args
}

// List returns the objects that a filter selects, sorted by id.
func List[T any, P Pointer[T]](ctx context.Context, tx *Tx, f Filter) ([]T, error) {
	var none T
	where, args := f.where()
	return sqldb.QueryList(ctx, tx.tx, `SELECT record FROM `+P(&none).table()+where+` ORDER BY id`, args,
		func(rows *sql.Rows) (object T, err error) {
			var record string
			if err = rows.Scan(&record); err == nil {
				err = decode(record, P(&object))
			}
			return object, err
		})
}

// Revisions returns the revision at which each object of a kind was written, by id.
func Revisions[T any, P Pointer[T]](ctx context.Context, tx *Tx) (map[string]int64, error) {
	var none T
	return sqldb.QueryMap[string, int64](ctx, tx.tx, `SELECT id, revision FROM `+P(&none).table())
}

// Count returns the number of objects that a filter selects.
func Count[T any, P Pointer[T]](ctx context.Context, tx *Tx, f Filter) (count int, err error) {
	var none T
	where, args := f.where()
	err = tx.tx.QueryRow(ctx, `SELECT COUNT(*) FROM `+P(&none).table()+where, args...).Scan(&count)
	return count, err
}

// decode decodes a record. An unknown field is an error, because a change would lose it.
func decode(record string, into Object) error {
	d := json.NewDecoder(bytes.NewReader([]byte(record)))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fault.New(fault.Internal, "a record of %s is not valid: %w", into.table(), err)
	}
	return nil
}

// duplicate returns an error that repeats the transaction, for a unique key that another transaction has inserted.
func duplicate(err error) error {
	if sqldb.IsDuplicate(err) {
		return sqldb.Retry(fault.New(fault.Conflict, "the row exists: %w", err))
	}
	return err
}

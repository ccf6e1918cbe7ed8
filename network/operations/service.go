// Package operations changes networks, subnets, ports and QoS policies: it checks a change against the other objects
// and writes it, in one transaction. Changes that Placement must accept are recorded before Placement is called, so
// that they are completed after a crash; see allocation_changes.go.
//
// Every fault has the code of the corresponding error of Neutron.
package operations

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/store"
)

// Placement is what the operations need of Placement; *placement.Client implements it.
type Placement interface {
	allocations
}

var _ Placement = (*placement.Client)(nil)

// Service performs the operations. Store must be set. It is safe for concurrent use.
type Service struct {
	Store     *store.Store
	Placement Placement // nil: policies of bound ports cannot change
	Compute   Compute   // nil: deleted ports of servers are not reported
	Segments  SegmentRanges
	Quotas    map[string]int // the default limits by resource: network, subnet, port …; -1: no limit
	DNSDomain string         // [DEFAULT] dns_domain: of networks without one; empty: DefaultDNSDomain
	Log       *slog.Logger
	Now       func() time.Time
	Times     Times

	recorded chan struct{} // receives when an event for compute is recorded
	agents   *liveness
	answers  *hostAnswers
}

// Times are the waits of a network service. Zero fields have the defaults.
type Times struct {
	// the first wait after a failed call of Placement or compute, default 1 s; it doubles up to 1 min
	Retry    time.Duration
	Complete time.Duration // how often Run looks for recorded changes of allocations, default 10 s
	// how old a recorded change is when Run completes it, default 1 min: its request completes it before
	Age time.Duration
}

// waits returns the waits after failed calls.
func (t Times) waits() backoff.Exponential {
	return backoff.Exponential{First: cmp.Or(t.Retry, time.Second), Max: time.Minute, Jitter: backoff.Around}
}

// NoRevision is the revision of an update that applies to any revision.
const NoRevision = -1

// notFound returns the fault for an object that does not exist. kind is the word of Neutron's error, such as Network.
func notFound(kind, id string) error {
	return fault.New(fault.NotFound, "%s %s could not be found.", kind, id).WithCode(kind + "NotFound")
}

// invalid returns a fault for a value that is not valid.
func invalid(format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, "Invalid input for operation: "+format, args...).WithCode("InvalidInput")
}

// conflict returns a fault for a state that prevents an operation.
func conflict(code, format string, args ...any) error {
	return fault.New(fault.Conflict, format, args...).WithCode(code)
}

// kindOf returns the word of Neutron's errors for the objects of a type.
func kindOf(o store.Object) string {
	switch o.(type) {
	case *store.Network:
		return "Network"
	case *store.Subnet:
		return "Subnet"
	case *store.Port:
		return "Port"
	case *store.Policy:
		return "QosPolicy"
	case *store.RBACPolicy:
		return "RbacPolicy"
	case *store.SubnetPool:
		return "SubnetPool"
	case *store.SecurityGroup:
		return "SecurityGroup"
	case *store.SecurityGroupRule:
		return "SecurityGroupRule"
	}
	return "Agent"
}

// GetIn returns an object as a transaction reads it, or fault.NotFound.
func GetIn[T any, P store.Pointer[T]](ctx context.Context, tx *store.Tx, id string) (T, error) {
	o, found, err := store.Get[T, P](ctx, tx, id)
	if err == nil && !found {
		err = notFound(kindOf(P(&o)), id)
	}
	return o, err
}

// Get returns an object, or fault.NotFound.
func Get[T any, P store.Pointer[T]](ctx context.Context, s *Service, id string) (o T, err error) {
	err = s.Store.ReadOne(ctx, func(tx *store.Tx) error {
		o, err = GetIn[T, P](ctx, tx, id)
		return err
	})
	return o, err
}

// PortWithPolicy returns a port with its network and its effective QoS policy, or fault.NotFound.
func PortWithPolicy(ctx context.Context, s *Service, id string) (p store.Port, n store.Network, policy store.Policy,
	err error) {
	err = s.Store.ReadOne(ctx, func(tx *store.Tx) error {
		var found bool
		if p, n, policy, found, err = store.WithPolicy(ctx, tx, id); err == nil && !found {
			err = notFound(kindOf(&p), id)
		}
		return err
	})
	return p, n, policy, err
}

// List returns the objects that a filter selects, sorted by id.
func List[T any, P store.Pointer[T]](ctx context.Context, s *Service, f store.Filter) (list []T, err error) {
	err = s.Store.ReadOne(ctx, func(tx *store.Tx) error {
		list, err = store.List[T, P](ctx, tx, f)
		return err
	})
	return list, err
}

// begin sets what a new object has. A missing ID is generated.
func (s *Service) begin(b *store.Base) {
	if b.ID == "" {
		b.ID = store.NewUUID()
	}
	b.Created = s.Now().UnixMicro()
	b.Updated = b.Created
}

// firstRevision is the revision of a new network or port: Neutron counts what it adds to them as a change. Other
// objects begin with 0.
const firstRevision = 1

// edited counts a change of an object.
func (s *Service) edited(b *store.Base) {
	b.Number++
	b.Updated = s.Now().UnixMicro()
}

// current reads an object for an update or a deletion and checks its revision: the code of the fault is
// RevisionNumberConstraintFailed.
func current[T any, P store.Pointer[T]](ctx context.Context, tx *store.Tx, id string, revision int) (T, error) {
	o, err := GetIn[T, P](ctx, tx, id)
	if err == nil && revision != NoRevision && P(&o).Common().Number != revision {
		err = conflict("RevisionNumberConstraintFailed", "Constrained to %d, but current revision is %d; read %s %s again",
			revision, P(&o).Common().Number, strings.ToLower(kindOf(P(&o))), id)
	}
	return o, err
}

// SetTags replaces the tags of an object.
func SetTags[T any, P store.Pointer[T]](ctx context.Context, s *Service, id string,
	change func(tags []string) ([]string, error)) (tags []string, err error) {
	err = s.Store.Write(ctx, func(tx *store.Tx) error {
		o, err := GetIn[T, P](ctx, tx, id)
		if err != nil {
			return err
		}
		if err := checkNotPending(ctx, tx, id); err != nil {
			return err
		}
		b := P(&o).Common()
		if tags, err = change(append([]string(nil), b.Tags...)); err != nil {
			return err
		}
		b.Tags = tags
		s.edited(b)
		return store.Put[T, P](ctx, tx, &o)
	})
	return tags, err
}

// isServerPort reports whether a port belongs to a server of compute.
func isServerPort(p store.Port) bool { return strings.HasPrefix(p.Owner, "compute:") && p.Device != "" }

// attempts is how often an operation is repeated after another client has changed the same object.
const attempts = 10

// checkNotPending refuses a change of an object that an unfinished change has.
func checkNotPending(ctx context.Context, tx *store.Tx, id string) error {
	unfinished, err := store.List[store.Change](ctx, tx, store.Filter{})
	if err != nil {
		return err
	}
	for _, c := range unfinished {
		if slices.Contains(c.Deleted, id) || c.Network != nil && c.Network.ID == id ||
			slices.ContainsFunc(c.Ports, func(p store.Port) bool { return p.ID == id }) {
			return refusePending(c, id)
		}
	}
	return nil
}

// waitsFor is the refusal of an operation because of an unfinished change.
type waitsFor struct {
	error
	change string // its id
}

func (w waitsFor) Unwrap() error { return w.error }

// refusePending returns the refusal of an operation because of an unfinished change of what.
func refusePending(c store.Change, what string) error {
	return waitsFor{conflict(pending, "a change of %s waits for Placement; try again when it is complete", what), c.ID}
}

// repeat reports whether an operation is to be repeated after a fault: another one has changed the same consumer, or is
// about to. It waits before, some seconds in all attempts: as long as Placement may take under load, because compute
// takes the error for one of the host, and goes to another. While it waits for an unfinished change it only reads: many
// waiting clients must not delay the writes of others.
func repeat(ctx context.Context, s *Service, attempt *int, err error) bool {
	if code := fault.CodeOf(err); code != lost && code != pending {
		return false
	}
	waits, is := errors.AsType[waitsFor](err)
	for ; *attempt < attempts-1; *attempt++ {
		if backoff.Sleep(ctx, min(20*time.Millisecond<<*attempt, time.Second)) != nil {
			return false
		}
		if !is {
			return true
		}
		if _, err := Get[store.Change](ctx, s, waits.change); err != nil {
			return fault.Is(err, fault.NotFound)
		}
	}
	return false
}

// SegmentRanges are the segments that networks may have, from the options of Neutron's ML2 plugin.
type SegmentRanges struct {
	TenantTypes []string // [ml2] tenant_network_types: of networks without provider attributes, in order
	Flat        []string // [ml2_type_flat] flat_networks; "*": any
	// [ml2_type_vlan] network_vlan_ranges; nil: any physical network, with an explicit VLAN
	VLANs   []VLANRange
	Tunnels map[string][][2]int // [ml2_type_vxlan] vni_ranges and its neighbours, by network type
	MTU     int                 // [DEFAULT] global_physnet_mtu
}

// Compute is what the operations need of compute; *compute.Client implements it.
type Compute interface {
	ReportEvents(ctx context.Context, events ...compute.ExternalEvent) ([]compute.ExternalEvent, error)
	SendGuarantees(ctx context.Context, server, change string, g compute.Guarantees) error
}

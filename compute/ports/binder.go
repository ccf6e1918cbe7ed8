// Package ports performs the parts of steps that call the network service: it creates, reserves, binds and releases the
// ports of servers, sets what servers have for them in Placement, and heals both.
//
// The files, from the bottom to the top: binder.go; amounts.go, devices.go, prepare.go and live_migration.go;
// choose_providers.go, changed_policy.go, bind.go and release.go; attach_and_detach.go; heal_lost_bindings.go and
// heal.go.
package ports

import (
	"cmp"
	"context"
	"log/slog"
	"slices"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/allocations"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/scheduler"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Network is what ports need of a network service; *network.Client implements it. Methods return fault.NotFound for an
// object that does not exist, except DeletePort, which returns nil then.
type Network interface {
	NetworkReader

	CreatePort(ctx context.Context, attributes map[string]any) (network.Port, error)
	UpdatePort(ctx context.Context, id string, attributes map[string]any) (network.Port, error)
	UpdatePortAt(ctx context.Context, id string, revision int, attributes map[string]any) (network.Port, error)
	DeletePort(ctx context.Context, id string) error
	BindPort(ctx context.Context, port, host, vnicType string, profile map[string]any) (network.PortBinding, error)
	ActivatePortBinding(ctx context.Context, port, host string) error
	DeletePortBinding(ctx context.Context, port, host string) error
}

// NetworkReader has the requests to the network service that change nothing.
type NetworkReader interface {
	scheduler.Network

	PortBindings(ctx context.Context, port string) ([]network.PortBinding, error)
}

// Store is what ports need of the database; *store.Store implements it.
type Store interface {
	Read(ctx context.Context, id string) (lifecycle.Server, error)
	Host(ctx context.Context, name string) (schedule.Host, error)
	Hosts(ctx context.Context) ([]schedule.Host, error)
	OnHost(ctx context.Context, host string) ([]lifecycle.Server, error)
	// ChangeWithinQuota changes a server; fault.Forbidden with quota.Exceeded if it would count more than a limit permits.
	ChangeWithinQuota(ctx context.Context, id string, next func(lifecycle.Server) lifecycle.Server) (
		lifecycle.Server, error)
}

// Placement has the requests to Placement that plans of healing need; *placement.Client implements it.
type Placement interface {
	Allocation(ctx context.Context, consumer resource.ConsumerID) (placement.ConsumerAllocation, error)
	Usages(ctx context.Context, id provider.ID) (resource.Amounts, error)
}

// Trees returns provider trees; *placement.Client implements it.
type Trees interface {
	Tree(ctx context.Context, id provider.ID) (provider.Tree, error)
}

// Options are what a Binder needs besides the records.
type Options struct {
	Log       *slog.Logger
	Network   Network // nil: no server has ports
	Trees     Trees
	Writer    allocations.Writer
	Scheduler *scheduler.Scheduler
	// Leased returns a context for calls of other services, which ends with the lease of compute's database.
	Leased func(ctx context.Context) (bound context.Context, stop context.CancelFunc, err error)
	// Alone calls do while no step of a server is performed. It returns false if a step is due.
	Alone func(server string, do func()) bool
}

// Binder performs the parts of steps that call the network service.
type Binder struct {
	Options

	store Store
}

// New returns a binder.
func New(store Store, options Options) *Binder { return &Binder{options, store} }

// bindingFailed is the vif_type of a port that no agent or mechanism can bind to its host.
const bindingFailed = "binding_failed"

// otherDevice is the code of the fault if the device of a port is not the server.
const otherDevice = "PortHasOtherDevice"

// checkOwner returns fault.Conflict with the code otherDevice if the device of a port is not the server.
func checkOwner(s lifecycle.Server, p network.Port) error {
	if p.Device == s.ID {
		return nil
	}
	return fault.New(fault.Conflict, "port %s is not bound: its device is %q, not the server; "+
		"attach another port", p.ID, p.Device).WithCode(otherDevice)
}

// portGone is the code of the fault if the network service does not have a port. Other objects may not exist either
// when a port is bound: the providers of a host, or a binding.
const portGone = "PortGone"

// ofPort returns an error of a request for a port, with the code portGone if the port does not exist.
func ofPort(err error) error {
	if fault.Is(err, fault.NotFound) {
		return fault.New(fault.NotFound, "%s", fault.TextOf(err)).WithCode(portGone)
	}
	return err
}

// ownPort returns a port of the network service. It returns fault.Conflict if its device is not the server, and
// fault.NotFound with the code portGone if there is none.
func (b *Binder) ownPort(ctx context.Context, s lifecycle.Server, id string) (network.Port, error) {
	p, err := b.Network.Port(ctx, id)
	if err != nil {
		return p, ofPort(err)
	}
	return p, checkOwner(s, p)
}

// unbindable returns the fault for such a port. `berth network` reports the reason, Neutron does not.
func unbindable(s lifecycle.Server, p network.Port) error {
	if p.VNIC == "remote-managed" {
		return fault.New(fault.Conflict, "port %s cannot be bound to host %s: the network service has "+
			"no chassis with the serial number of its card; a port of vnic_type remote-managed needs Neutron with OVN, and "+
			"external-ids:ovn-cms-options=card-serial-number=… on the card", p.ID, s.Host).WithCode("PortBindingFailed")
	}
	if reason, ok := p.VIFDetails["reason"].(string); ok {
		return fault.New(fault.Conflict, "port %s cannot be bound to host %s: %s", p.ID, s.Host,
			reason).WithCode("PortBindingFailed")
	}
	return fault.New(fault.Conflict, "port %s cannot be bound to host %s: no agent or mechanism of "+
		"the network service there serves its network and vnic_type %s; set [ovs] bridge_mappings or "+
		"[SRIOV_NIC] physical_device_mappings of its agent, and see `openstack network agent list --host %s`",
		p.ID, s.Host, p.VNIC, s.Host).WithCode("PortBindingFailed")
}

// owner returns the device_owner of the ports of a server.
func owner(s lifecycle.Server) string { return "compute:" + cmp.Or(s.Zone, "nova") }

// leftOut reports whether a port of a guest that is not built yet is not needed: its deletion was reported. A guest is
// never built with the device of a port that was not bound, so such a port is not left out.
func leftOut(s lifecycle.Server, port string) bool {
	_, needsDevice := s.DeviceOf(port)
	return slices.Contains(s.DeletedPorts, port) && !needsDevice
}

// boundProfile returns a binding profile with the allocation of a port and its device, if it has one in devices.
func boundProfile(old map[string]any, p lifecycle.Port, devices map[string]pci.Offered) map[string]any {
	var device *network.ProfileDevice
	if d, has := devices[p.ID]; has {
		device = &network.ProfileDevice{Device: d.Device, PhysicalNetwork: d.PhysicalNetwork, RemoteManaged: d.RemoteManaged}
	}
	return network.BoundProfile(old, p.ID, p.Allocation, device)
}

// wasLive reports whether the present or last move of a server is a live migration.
func wasLive(s lifecycle.Server) bool {
	return s.Migration != nil && s.Migration.Kind == lifecycle.LiveMigration
}

// addsBindings reports whether BindPorts adds inactive bindings: the guest runs at the source of a live migration.
func addsBindings(s lifecycle.Server) bool {
	return s.AwaitsBindings() ||
		s.Phase() == lifecycle.BindingDestination && s.Move.Kind == lifecycle.LiveMigration && !s.Move.From.Gone
}

// bindingOn returns the binding to a host. ok is false if there is none.
func bindingOn(all []network.PortBinding, host string) (b network.PortBinding, ok bool) {
	for _, b := range all {
		if b.Host == host {
			return b, true
		}
	}
	return b, false
}

// The attributes of a port that compute changes.
const (
	deviceID    = "device_id"
	deviceOwner = "device_owner"
	hostID      = "binding:host_id"
	profile     = "binding:profile"
	dnsName     = "dns_name"
)

// withDNSName adds the name of a server to the attributes of its port, if the port has none and the network service has
// names.
func withDNSName(s lifecycle.Server, p network.Port, attributes map[string]any) map[string]any {
	if name := s.DNSName(); name != "" && p.DNSName != nil && *p.DNSName == "" {
		attributes[dnsName] = name
	}
	return attributes
}

// returned are the attributes of a port of a user that belongs to no server any more. A name that compute has given to
// the port is removed, also after the server was renamed.
func returned(s lifecycle.Server, p network.Port) map[string]any {
	attributes := map[string]any{deviceID: "", deviceOwner: ""}
	given := scheduler.GivenName(s, p)
	if given != "" && p.DNSName != nil && *p.DNSName != "" && (*p.DNSName == given || *p.DNSName == s.DNSName()) {
		attributes[dnsName] = ""
	}
	return attributes
}

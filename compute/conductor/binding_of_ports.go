package conductor

import (
	"cmp"
	"context"
	"slices"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// portBinder performs the parts of steps that call the network service.
type portBinder struct{ *dependencies }

// portBinding binds ports of a server to its host.
type portBinding struct {
	*portBinder

	server  lifecycle.Server
	devices map[string]pci.Offered // by port
	guest   bool                   // the guest exists: a guarantee without room does not prevent the binding
	short   map[string]string      // why ports have less than they request, by port; set by bind
	// the amounts in Placement may not be those of the record: an interrupted attempt has set those of another policy
	verify bool
}

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

// ownPort returns a port of the network service. It returns fault.Conflict if its device is not the server.
func (d *portBinder) ownPort(ctx context.Context, s lifecycle.Server, id string) (network.Port, error) {
	p, err := d.Network.Port(ctx, id)
	if err != nil {
		return p, err
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
)

package ports

import (
	"context"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/scheduler"
	"github.com/openberth/berth/fault"
)

// Prepare creates the missing ports of a server, reserves the others for it, and reads them all. A port has the
// server as its device, so after a crash a created one is found again. It returns why the server cannot have its ports.
func (b *Binder) Prepare(ctx context.Context, s lifecycle.Server) (all scheduler.Ports, refusal string,
	err error) {
	return b.Scheduler.CollectPorts(ctx, s, b.portOf)
}

// portOf returns the port of a requested network: an existing one of the server, or one that is created or reserved
// now. Ports in used belong to other requests. The security groups of the server are those of the ports that are
// created with it; a port that is attached later has those that the network service gives to it.
func (b *Binder) portOf(ctx context.Context, s lifecycle.Server, r lifecycle.NetworkRequest,
	existing []network.Port, used map[string]bool) (network.Port, error) {
	if r.Port != "" {
		return b.reserve(ctx, s, r.Port)
	}
	if p, found := scheduler.PortOfRequest(r, existing, used); found {
		return p, nil
	}
	attributes := map[string]any{"network_id": r.Network, "project_id": s.Project, deviceID: s.ID,
		deviceOwner: owner(s), "admin_state_up": true}
	if len(s.SecurityGroups) > 0 && s.SecurityGroups[0].ID != "" && s.PortChange == nil {
		ids := []string{}
		for _, g := range s.SecurityGroups {
			ids = append(ids, g.ID)
		}
		attributes["security_groups"] = ids
	}
	if r.FixedIP != "" {
		attributes["fixed_ips"] = []map[string]string{{"ip_address": r.FixedIP}}
	}
	return b.Network.CreatePort(ctx, attributes)
}

// reserve makes the server the device of an existing port, so that no other server gets it. If another client changes
// the port meanwhile, it begins again: that may be the reservation for another server.
func (b *Binder) reserve(ctx context.Context, s lifecycle.Server, id string) (p network.Port, err error) {
	for range bindTries {
		p, err = b.Network.Port(ctx, id)
		switch {
		case err != nil || p.Device == s.ID:
			return p, err
		case p.Device != "":
			return p, scheduler.PortInUse(p)
		}
		p, err = b.Network.UpdatePortAt(ctx, id, p.Revision, map[string]any{deviceID: s.ID})
		if fault.CodeOf(err) != network.PortChanged {
			return p, err
		}
	}
	return p, fault.Wrap(fault.Unavailable, err)
}

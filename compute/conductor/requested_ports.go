package conductor

import (
	"context"
	"net/url"
	"slices"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/portrequest"
	"github.com/openberth/berth/fault"
)

// This file reads the ports of a server before it is scheduled, for plans and for moves.

// serverPorts are the ports of a server, and what they request.
type serverPorts struct {
	ports []lifecycle.Port
	wants []portrequest.Port
}

// portFinder returns the port of a requested network. existing are the ports of the server; those in used belong to
// other requests.
type portFinder func(ctx context.Context, s lifecycle.Server, r lifecycle.NetworkRequest, existing []network.Port,
	used map[string]bool) (network.Port, error)

// collectPorts returns the ports of a server, which find returns one by one, or why the server cannot have them.
func (r reading) collectPorts(ctx context.Context, s lifecycle.Server, find portFinder) (all serverPorts,
	refusal string, err error) {
	if len(s.Networks) == 0 {
		return all, "", nil
	}
	existing, err := r.portsOf(ctx, s)
	if err != nil {
		return all, "", err
	}
	networks := map[string]network.Network{}
	used := map[string]bool{}
	for _, n := range s.Networks {
		used[n.Port] = true
	}
	for _, requested := range s.Networks {
		if slices.Contains(s.DeletedPorts, requested.Port) {
			continue
		}
		p, err := find(ctx, s, requested, existing, used)
		if err != nil && refusedByNetwork(err) {
			return all, fault.TextOf(err), nil
		}
		if err != nil {
			return all, "", err
		}
		used[p.ID] = true
		n, known := networks[p.Network]
		if !known {
			if n, err = r.network.Network(ctx, p.Network); err != nil {
				return all, "", fault.Wrap(fault.Unavailable, err)
			}
			networks[p.Network] = n
		}
		port := readPort(p, requested, n.Name)
		all.ports, all.wants = append(all.ports, port), append(all.wants, wantsOf(s, port, p, n))
	}
	return all, "", nil
}

// portsOf returns the ports whose device is the server.
func (r reading) portsOf(ctx context.Context, s lifecycle.Server) ([]network.Port, error) {
	if r.network == nil {
		return nil, fault.New(fault.Unavailable, "the ports of the server are not reachable: no "+
			"network service is configured; set [neutron] endpoint_override")
	}
	return r.network.Ports(ctx, url.Values{deviceID: {s.ID}})
}

// plannedPort is a portFinder that changes nothing. A port that a move would create is a plain one without an id: what
// a policy of its network requests is known only when it exists.
func (r reading) plannedPort(ctx context.Context, s lifecycle.Server, requested lifecycle.NetworkRequest,
	existing []network.Port, used map[string]bool) (network.Port, error) {
	if requested.Port != "" {
		p, err := r.network.Port(ctx, requested.Port)
		if err == nil && p.Device != "" && p.Device != s.ID {
			err = portInUse(p)
		}
		return p, err
	}
	if p, found := portOfRequest(requested, existing, used); found {
		return p, nil
	}
	return network.Port{Network: requested.Network, ActiveBinding: network.ActiveBinding{VNIC: "normal"}}, nil
}

// portOfRequest returns the port that was created for a requested network.
func portOfRequest(r lifecycle.NetworkRequest, existing []network.Port, used map[string]bool) (p network.Port,
	found bool) {
	at := slices.IndexFunc(existing, func(p network.Port) bool {
		return p.Network == r.Network && !used[p.ID] && (r.FixedIP == "" || hasAddress(p, r.FixedIP))
	})
	if at < 0 {
		return p, false
	}
	return existing[at], true
}

// portInUse returns the fault for a port of another device.
func portInUse(p network.Port) error {
	return fault.New(fault.Conflict, "port %s is in use by device %s; choose another port", p.ID,
		p.Device).WithCode("PortInUse")
}

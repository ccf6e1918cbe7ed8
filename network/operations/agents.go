package operations

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"

	"github.com/openberth/berth/api/network"
	api "github.com/openberth/berth/api/network"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/binding"
	"github.com/openberth/berth/network/qos"
	"github.com/openberth/berth/network/store"
	"github.com/openberth/berth/provider"
)

// agentSpace is the name space of the IDs of agents.
const agentSpace provider.ID = "5f8c7c5e-0a55-4e1c-9d0f-6d2f4b1f9f10"

// AgentID returns the ID of the agent of a type on a host: the same after the agent was deleted and reports again.
func AgentID(host, kind string) string { return string(provider.IDFromName(agentSpace, host+":"+kind)) }

// Agents has the operations of agents and for the agents of hosts.
type Agents struct{ *Service }

// ReportAgent creates or updates an agent from its report. It keeps what administrators have set. Ports of the host
// whose binding has failed are bound again if the agent was silent or may have been, or if what it binds has changed.
func (s Agents) ReportAgent(ctx context.Context, host, kind string, r api.AgentReport) error {
	conf, err := json.Marshal(r.Configurations)
	if err != nil {
		return fault.Wrap(fault.Invalid, err)
	}
	id := AgentID(host, kind)
	err = s.Store.Write(ctx, func(tx *store.Tx) error {
		a, found, err := store.Get[store.Agent](ctx, tx, id)
		if err != nil {
			return err
		}
		if !found {
			a = store.Agent{Base: store.Base{ID: id}, Host: host, Type: kind, AdminUp: true}
			s.begin(&a.Base)
		}
		old := a
		a.Name, a.Synced, a.Root, a.Provider, a.Conf = r.Binary, r.Synced, r.Root, r.Provider, string(conf)
		a.Heartbeat = s.Now().UnixMicro()
		if a.Start != r.Start || !found {
			a.Start, a.Started = r.Start, a.Heartbeat
		}
		a.VNICTypes, a.Devices, a.Tunnel = r.VNICTypes, nil, bridging(a).TunnelingIP
		for _, d := range r.Devices {
			a.Devices = append(a.Devices, store.AgentDevice(d))
		}
		if err := store.Put(ctx, tx, &a); err != nil {
			return err
		}
		if found && s.agents.recent(id, s.Now()) && a.Provider == old.Provider &&
			slices.Equal(a.VNICTypes, old.VNICTypes) && reflect.DeepEqual(a.Devices, old.Devices) &&
			reflect.DeepEqual(bridging(a), bridging(old)) {
			return nil
		}
		return s.bindFailed(ctx, tx, host)
	})
	if err == nil {
		s.agents.reported(id, s.Now())
	}
	return err
}

// bindFailed binds the ports of a host whose binding has failed.
func (s Agents) bindFailed(ctx context.Context, tx *store.Tx, host string) error {
	ports, err := store.List[store.Port](ctx, tx, store.Filter{Hosts: []string{host}})
	if err != nil {
		return err
	}
	for _, p := range ports {
		if p.Binding.VIF != binding.Failed || checkNotPending(ctx, tx, p.ID) != nil {
			continue
		}
		n, err := GetIn[store.Network](ctx, tx, p.Network)
		if err != nil {
			return err
		}
		if err := s.bind(ctx, tx, &p, n); err != nil {
			return err
		}
		s.edited(&p.Base)
		if err := tx.PutPort(ctx, &p); err != nil {
			return err
		}
	}
	return nil
}

// UpdateAgent changes what administrators set of an agent.
func (s Agents) UpdateAgent(ctx context.Context, id string, change func(*store.Agent) error) (a store.Agent,
	err error) {
	err = s.Store.Write(ctx, func(tx *store.Tx) error {
		if a, err = GetIn[store.Agent](ctx, tx, id); err != nil {
			return err
		}
		if err := change(&a); err != nil {
			return err
		}
		s.edited(&a.Base)
		return store.Put(ctx, tx, &a)
	})
	return a, err
}

// DeleteAgent removes an agent; it appears again with its next report.
func (s Agents) DeleteAgent(ctx context.Context, id string) error {
	return s.Store.Write(ctx, func(tx *store.Tx) error {
		if _, err := GetIn[store.Agent](ctx, tx, id); err != nil {
			return err
		}
		return store.Delete[store.Agent](ctx, tx, id)
	})
}

// AdmitAgent returns the account to which a host is bound. A host without an account of this auth_strategy is bound to
// the caller.
func (s Agents) AdmitAgent(ctx context.Context, host, user, strategy string) (account string, err error) {
	var of string
	err = s.Store.Read(ctx, func(tx *store.Tx) error {
		account, of, err = tx.HostAccount(ctx, host)
		return err
	})
	if err != nil || account != "" && of == strategy {
		return account, err
	}
	err = s.Store.Write(ctx, func(tx *store.Tx) error {
		if account, of, err = tx.HostAccount(ctx, host); err != nil || account != "" && of == strategy {
			return err
		}
		account = user
		return tx.BindHost(ctx, host, user, strategy)
	})
	return account, err
}

// BindHost binds a host to an account.
func (s Agents) BindHost(ctx context.Context, host, account, strategy string) error {
	return s.Store.Write(ctx, func(tx *store.Tx) error { return tx.BindHost(ctx, host, account, strategy) })
}

// HostPorts returns the ports of a host that have changed since a revision, by themselves or by their network or
// policy; 0: all of them. They are all returned too if removals since then have been forgotten.
func (s Agents) HostPorts(ctx context.Context, host string, since int64) (all api.HostPorts, err error) {
	err = s.Store.Read(ctx, func(tx *store.Tx) error {
		newest, err := tx.Newest(ctx)
		if err != nil {
			return err
		}
		all = api.HostPorts{Revision: newest, Ports: []api.HostPort{}}
		if all.Whole = since == 0 || !tx.HasRemovals(since, newest); all.Whole {
			since = 0
		}
		if all.Left, err = tx.Left(ctx, host, since); err != nil {
			return err
		}
		changed, err := changedSince(ctx, tx, host, since)
		if err != nil {
			return err
		}
		ports, err := store.List[store.Port](ctx, tx, store.Filter{Hosts: []string{host}})
		if err != nil {
			return err
		}
		for _, p := range ports {
			n, err := GetIn[store.Network](ctx, tx, p.Network)
			if err != nil {
				return err
			}
			effective := qos.Effective(p.Policy, n.Policy)
			if !changed[p.ID] && !changed[n.ID] && !changed[effective] {
				continue
			}
			policy, _, err := store.Get[store.Policy](ctx, tx, effective)
			if err != nil {
				return err
			}
			all.Ports = append(all.Ports, hostPort(p, n, policy, Domain(s.Service, n)))
		}
		return nil
	})
	return all, err
}

// changedSince returns the ports of a host, the networks and the policies that were written after a revision, by ID.
func changedSince(ctx context.Context, tx *store.Tx, host string, since int64) (map[string]bool, error) {
	changed := map[string]bool{}
	ports, err := store.List[store.Port](ctx, tx, store.Filter{Hosts: []string{host}, Since: since})
	if err != nil {
		return nil, err
	}
	networks, err := store.List[store.Network](ctx, tx, store.Filter{Since: since})
	if err != nil {
		return nil, err
	}
	policies, err := store.List[store.Policy](ctx, tx, store.Filter{Since: since})
	for _, p := range ports {
		changed[p.ID] = true
	}
	for _, n := range networks {
		changed[n.ID] = true
	}
	for _, p := range policies {
		changed[p.ID] = true
	}
	return changed, err
}

// hostPort returns what the data plane needs for a port.
func hostPort(p store.Port, n store.Network, policy store.Policy, domain string) api.HostPort {
	out := api.HostPort{ID: p.ID, Device: p.Device, Agent: p.Binding.Agent, VIF: p.Binding.VIF, VNIC: p.Binding.VNIC,
		MAC: p.MAC, AdminUp: p.AdminUp && n.AdminUp, MTU: n.MTU}
	out.PortIdentity = api.PortIdentity{Network: p.Network, Owner: p.Owner, Project: p.Project,
		Name:   portName(p, domain),
		Bridge: p.Binding.Bridge, PortSecurity: p.PortSecurity, Groups: p.Groups}
	for _, ip := range p.FixedIPs {
		out.FixedIPs = append(out.FixedIPs, api.FixedIP(ip))
	}
	for _, pair := range p.Pairs {
		out.Pairs = append(out.Pairs, api.AddressPair(pair))
	}
	out.PCISlot = network.SlotOf(p.Binding.Profile)
	switch v := p.Binding.Profile["trusted"].(type) {
	case bool:
		out.Trusted = v
	case string: // the form that compute reads too
		out.Trusted, _ = strconv.ParseBool(v)
	}
	out.SpoofCheck = p.PortSecurity && !out.Trusted
	for _, seg := range n.Segments {
		if seg.UUID == p.Binding.Segment {
			out.NetworkType, out.PhysicalNetwork, out.SegmentationID = seg.Type, seg.PhysicalNetwork, seg.ID
		}
	}
	for _, r := range policy.Rules {
		ingress := r.Direction == "ingress"
		switch {
		case r.Type == string(qos.MinimumBandwidth) && ingress:
			out.MinIngress = r.Min
		case r.Type == string(qos.MinimumBandwidth):
			out.MinEgress = r.Min
		case r.Type == string(qos.BandwidthLimit) && ingress:
			out.MaxIngress = r.Max
		case r.Type == string(qos.BandwidthLimit):
			out.MaxEgress = r.Max
		}
	}
	return out
}

// portName returns the host name of a port in its network, which its guest gets by DHCP; empty if it has no address.
func portName(p store.Port, domain string) string {
	for _, one := range DNSAssignments(p, domain) {
		return one.Hostname
	}
	return ""
}

package sim

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// The networks of a simulated cloud. Two are on physnet0, which each host has a bridge for.
const (
	plainNetwork      = "plain"
	guaranteedNetwork = "guaranteed" // its policy guarantees bandwidth
	directNetwork     = "direct"     // on physnet1, which NICs with VFs are connected to
)

// do makes one call of a process of compute.
func (c networkClient) do(effect func() error) error {
	before, after := c.process.fault()
	if before != nil {
		return before
	}
	c.changePolicyDuringStep()
	if err := effect(); err != nil {
		return err
	}
	return after
}

// Ports lists the ports of a device.
func (c networkClient) Ports(_ context.Context, query url.Values) (list []network.Port, err error) {
	err = c.do(func() error {
		for _, id := range c.ids {
			if p := c.ports[id]; p.Device == query.Get("device_id") {
				list = append(list, p)
			}
		}
		return nil
	})
	return list, err
}

// Port returns a port.
func (c networkClient) Port(_ context.Context, id string) (p network.Port, err error) {
	err = c.do(func() error { p, err = c.port(id); return err })
	c.lastRead = id
	return p, err
}

func (nm *networkModel) port(id string) (network.Port, error) {
	p, exists := nm.ports[id]
	if !exists {
		return p, notFound("port", id)
	}
	return p, nil
}

// CreatePort creates a port of compute.
func (c networkClient) CreatePort(_ context.Context, attributes map[string]any) (p network.Port, err error) {
	err = c.do(func() error {
		kbps := 0
		if attributes["network_id"] == guaranteedNetwork {
			kbps = 100
		}
		p = c.create(attributes["network_id"].(string), "normal", kbps)
		p, err = c.update(p.ID, attributes)
		return err
	})
	return p, err
}

// create creates a port that guarantees bandwidth in kilobits per second; 0: none.
func (nm *networkModel) create(in, vnic string, kbps int) network.Port {
	p := network.Port{ID: nm.name("port"), Network: in, MAC: "fa:16:3e:00:00:00",
		ActiveBinding: network.ActiveBinding{VNIC: vnic, VIF: "unbound"}}
	p.Request = request(p, kbps)
	nm.ports[p.ID] = p
	nm.ids = append(nm.ids, p.ID)
	return p
}

// request returns what a port requests from Placement: egress bandwidth, and of a bridge also ingress bandwidth; nil
// for no guarantee. The id of its group depends on the policy, as it does on the rules of a real one.
func request(p network.Port, kbps int) *network.ResourceRequest {
	if kbps == 0 {
		return nil
	}
	id := fmt.Sprintf("%s-%d", p.ID, kbps)
	amounts, physnet := resource.Amounts{bandwidth.EgressBandwidth: kbps}, "physnet1"
	if p.VNIC != direct {
		physnet, amounts[bandwidth.IngressBandwidth] = "physnet0", kbps
	}
	return &network.ResourceRequest{SameSubtree: []string{id}, Groups: []network.RequestGroup{{ID: id,
		Required:  []string{string(bandwidth.PhysnetTrait(physnet)), string(bandwidth.VNICTrait(p.VNIC))},
		Resources: amounts}}}
}

// UpdatePort changes a port.
func (c networkClient) UpdatePort(_ context.Context, id string, attributes map[string]any) (p network.Port, err error) {
	err = c.do(func() error { p, err = c.update(id, attributes); return err })
	return p, err
}

// UpdatePortAt changes a port that has this revision.
func (c networkClient) UpdatePortAt(_ context.Context, id string, revision int, attributes map[string]any) (
	p network.Port, err error) {
	err = c.do(func() error {
		if p, err = c.port(id); err == nil && p.Revision != revision {
			c.report.Happened["port changed while it was bound"]++
			return fault.New(fault.Conflict, "port %s has revision %d", id, p.Revision).WithCode(network.PortChanged)
		}
		p, err = c.update(id, attributes)
		return err
	})
	return p, err
}

func (nm *networkModel) update(id string, attributes map[string]any) (network.Port, error) {
	p, err := nm.port(id)
	if err != nil {
		return p, err
	}
	for name, value := range attributes {
		switch name {
		case "device_id":
			p.Device = value.(string)
		case "device_owner":
			p.DeviceOwner = value.(string)
		case "binding:host_id":
			p.Host = value.(string)
		case "binding:profile":
			p.Profile = maps.Clone(value.(map[string]any))
		}
	}
	p.VIF = nm.vif(p)
	p.Revision++
	nm.ports[id] = p
	delete(nm.inactive[id], p.Host)
	return p, nil
}

// PortBindings lists the bindings of a port.
func (c networkClient) PortBindings(_ context.Context, port string) (list []network.PortBinding, err error) {
	err = c.do(func() error {
		p, err := c.port(port)
		if err != nil {
			return err
		}
		if p.Host != "" {
			list = append(list, network.PortBinding{Host: p.Host, VNIC: p.VNIC, VIF: p.VIF, Profile: p.Profile,
				Status: "ACTIVE"})
		}
		for _, host := range slices.Sorted(maps.Keys(c.inactive[port])) {
			list = append(list, c.inactive[port][host])
		}
		return nil
	})
	return list, err
}

// BindPort adds an inactive binding.
func (c networkClient) BindPort(_ context.Context, port, host, vnic string, profile map[string]any) (
	b network.PortBinding, err error) {
	err = c.do(func() error {
		p, err := c.port(port)
		if err != nil {
			return err
		}
		if _, exists := c.inactive[port][host]; exists || p.Host == host {
			return fault.New(fault.Conflict, "port %s has a binding to %s", port, host)
		}
		p.Host, p.Profile = host, profile
		b = network.PortBinding{Host: host, VNIC: vnic, VIF: c.vif(p), Profile: maps.Clone(profile), Status: "INACTIVE"}
		if b.VIF == "binding_failed" {
			return fault.New(fault.Conflict, "port %s cannot be bound to %s", port, host).WithCode("PortBindingError")
		}
		if c.inactive[port] == nil {
			c.inactive[port] = map[string]network.PortBinding{}
		}
		c.inactive[port][host] = b
		return nil
	})
	return b, err
}

// ActivatePortBinding makes an inactive binding the active one, and the active one inactive.
func (c networkClient) ActivatePortBinding(_ context.Context, port, host string) error {
	return c.do(func() error {
		p, err := c.port(port)
		b, exists := c.inactive[port][host]
		if err != nil || !exists {
			return notFound("inactive binding of port", port)
		}
		delete(c.inactive[port], host)
		if p.Host != "" {
			c.inactive[port][p.Host] = network.PortBinding{Host: p.Host, VNIC: p.VNIC, VIF: p.VIF, Profile: p.Profile,
				Status: "INACTIVE"}
		}
		p.Host, p.VIF, p.Profile = host, b.VIF, b.Profile
		c.ports[port] = p
		return nil
	})
}

// DeletePortBinding removes a binding.
func (c networkClient) DeletePortBinding(_ context.Context, port, host string) error {
	return c.do(func() error {
		if p, exists := c.ports[port]; exists && p.Host == host {
			p.Host, p.VIF = "", "unbound"
			c.ports[port] = p
		}
		delete(c.inactive[port], host)
		return nil
	})
}

// vif binds a port: only the agent of its host that has the provider of its allocation can do it.
func (nm *networkModel) vif(p network.Port) string {
	if p.Host == "" {
		return "unbound"
	}
	if p.VNIC == direct {
		return nm.directVIF(p)
	}
	for _, at := range p.Allocation() {
		if at != string(bridgeOf(p.Host)) {
			return "binding_failed"
		}
	}
	return "ovs"
}

// direct is the vnic type of ports with a VF, and directRate the step of their guarantees: a NIC has 1000 kilobits per
// second or a multiple of that.
const direct, directRate = "direct", 200

func bridgeOf(host string) provider.ID {
	return bandwidth.Name{Hypervisor: host, Agent: bandwidth.OpenVSwitch, Device: "br-ex"}.ID()
}

// DeletePort deletes a port. What it has of its server's allocation is released.
func (c networkClient) DeletePort(_ context.Context, id string) error {
	return c.do(func() error { c.remove(id); return nil })
}

func (nm *networkModel) remove(id string) {
	p, exists := nm.ports[id]
	if !exists {
		return
	}
	_ = nm.allocate(p, nil) // a smaller allocation is not refused
	delete(nm.ports, id)
	delete(nm.inactive, id)
	nm.ids = slices.DeleteFunc(nm.ids, func(other string) bool { return other == id })
}

// Network returns a network.
func (c networkClient) Network(_ context.Context, id string) (out network.Network, err error) {
	err = c.do(func() error {
		if out.ID, out.Name = id, id; id == directNetwork {
			out.PhysicalNetwork = "physnet1"
		}
		return nil
	})
	return out, err
}

// allocate replaces what a bound port has of its server's allocation. It returns an error if there is no room.
func (nm *networkModel) allocate(p network.Port, next *network.ResourceRequest) error {
	at := provider.ID("")
	for _, on := range p.Allocation() {
		at = provider.ID(on)
	}
	if at == "" || p.Device == "" {
		return nil
	}
	held, err := nm.placement.Allocation(background, resource.ConsumerID(p.Device))
	if err != nil {
		return err
	}
	if len(held.Allocation[at]) == 0 { // the server is being moved, or its allocation was lost
		return fault.New(fault.Conflict, "server %s has nothing of provider %s; try again", p.Device, at)
	}
	amounts := maps.Clone(held.Allocation[at])
	for _, change := range []struct {
		request *network.ResourceRequest
		sign    int
	}{{p.Request, -1}, {next, 1}} {
		if change.request == nil {
			continue
		}
		for _, g := range change.request.Groups {
			for class, more := range g.Resources {
				if amounts[class] += change.sign * more; amounts[class] <= 0 {
					delete(amounts, class)
				}
			}
		}
	}
	held.Allocation = maps.Clone(held.Allocation)
	if held.Allocation[at] = amounts; len(amounts) == 0 {
		delete(held.Allocation, at)
	}
	held.Mappings = nil
	if len(held.Allocation) == 0 {
		return nm.placement.DeleteAllocation(background, resource.ConsumerID(p.Device))
	}
	return nm.placement.PutAllocations(background, map[resource.ConsumerID]placement.ConsumerAllocation{
		resource.ConsumerID(p.Device): held})
}

// changePort attaches a port to a random server, or detaches one.
func (op *operations) changePort() {
	ids := op.compute.ids.list
	for range min(8, len(ids)) {
		s := op.compute.servers[ids[op.rng.IntN(len(ids))]]
		var e lifecycle.PortChangeRequest
		if len(s.Ports) > 0 && op.halfTheTime() {
			e = lifecycle.PortDetachRequested{ID: op.name("m"), Port: s.Ports[op.rng.IntN(len(s.Ports))].ID}
		} else if list := op.randomNetworks(); len(list) > 0 {
			e = lifecycle.PortAttachRequested{ID: op.name("m"), Request: list[0]}
		} else {
			continue
		}
		if what, _ := e.PortChange(); s.RefusePortRequest(what) != "" {
			continue
		}
		op.note(Ports, s.ID, s.Host, fmt.Sprintf("%T", e))
		op.compute.event = e
		err := op.compute.conductor.ChangePort(background, s.ID, e)
		op.compute.event = nil
		op.compute.retryLater(s.ID, err)
		return
	}
}

// changePolicy gives a random port another policy: the network service allocates first. Ports of users without a server
// are deleted from time to time.
func (op *operations) changePolicy() {
	n := op.network
	if len(n.ids) == 0 {
		return
	}
	p := n.ports[n.ids[op.rng.IntN(len(n.ids))]]
	if p.Device == "" {
		op.note(Policy, p.ID, "", "deleted")
		n.remove(p.ID)
		return
	}
	op.network.changePolicyOf(p)
}

// changePolicyDuringStep changes the policy of a port, before a call of compute to the network service, from time to
// time: that of the port which compute has read last, so that it is about to write it.
func (nm *networkModel) changePolicyDuringStep() {
	p, exists := nm.ports[nm.lastRead]
	if exists && p.Device != "" && nm.oneIn(10) {
		nm.report.Happened["policy changed during a step"]++
		nm.changePolicyOf(p)
	}
}

// changePolicyOf gives a port of a server another policy. That of a port that is not bound changes at once: compute
// allocates what it requests when it binds the port.
func (nm *networkModel) changePolicyOf(p network.Port) {
	n, at := nm, ""
	for _, on := range p.Allocation() {
		at = on
	}
	if p.Host != "" && (p.Request == nil || at == "") { // the first guarantee of a bound port is a query, not simulated
		return
	}
	rate := 100
	if p.VNIC == direct {
		rate = directRate
	}
	next := request(p, rate*nm.rng.IntN(5))
	if err := n.allocate(p, next); err != nil {
		nm.report.Happened["policy refused"]++
		return
	}
	p.Request, p.Profile = next, maps.Clone(p.Profile)
	p.Revision++
	if at == "" {
		nm.report.Happened["policy of a port changed that is not bound"]++
	} else if delete(p.Profile, "allocation"); next != nil {
		p.Profile["allocation"] = map[string]any{next.Groups[0].ID: at}
		nm.note(Policy, p.ID, p.Host, next.Groups[0].ID)
	} else {
		nm.note(Policy, p.ID, p.Host, "guarantees nothing")
		nm.report.Happened["guarantee of a bound port removed"]++
	}
	n.ports[p.ID] = p
}

// repairPorts is what an operator does about ports after a restore: those of servers that compute does not have any
// more are returned, and a server whose ports contradict its record is deleted.
func (rp *repairs) repairPorts() (busy bool) {
	for _, id := range slices.Clone(rp.network.ids) {
		p := rp.network.ports[id]
		if _, exists := rp.compute.servers[p.Device]; p.Device == "" || exists {
			continue
		}
		if !rp.rolledBack[p.Device] {
			rp.violation(nil, "port: %s belongs to server %s, which does not exist, and nothing was restored", id, p.Device)
			return false
		}
		rp.note("operator", p.Device, p.Host, "returns port "+id)
		rp.report.Happened["port returned by the operator"]++
		rp.network.remove(id)
		busy = true
	}
	for _, id := range slices.Sorted(maps.Keys(rp.compute.servers)) {
		if s := rp.compute.servers[id]; (rp.rolledBack[id] || rp.altered[id]) && s.Requested.IsZero() &&
			rp.portFault(s, rp.placement.Held(resource.ConsumerID(id))) != "" {
			rp.report.Happened["server with other ports deleted by the operator"]++
			rp.compute.remove(id)
			busy = true
		}
	}
	return busy
}

// checkPorts: the ports of a quiescent server are bound to its host, with an allocation that its server has in
// Placement, and Placement has nothing else of networks for it.
func (ck *checks) checkPorts(s lifecycle.Server) {
	if why := ck.portFault(s, ck.placement.Held(resource.ConsumerID(s.ID))); why != "" {
		ck.violation(ck.byName[s.Host], "port: server %s with the steps %v: %s", s.ID, s.Steps(), why)
	}
}

// portFault returns what is wrong with the ports of a quiescent server that holds an allocation; empty if nothing is.
func (ck *checks) portFault(s lifecycle.Server, held resource.Allocation) string {
	bound := 0
	for _, id := range ck.network.ids {
		p := ck.network.ports[id]
		if p.Device != s.ID {
			continue
		}
		bound++
		vif := "ovs"
		if p.VNIC == direct {
			vif = "hw_veb"
		}
		if p.Host != s.Host || s.Host != "" && p.VIF != vif {
			return fmt.Sprintf("%s is bound to %q as %s", id, p.Host, p.VIF)
		}
		if s.Host != "" && p.VNIC == direct {
			if why := ck.vfFault(s, p); why != "" {
				return id + ": " + why
			}
		}
	}
	if s.Host != "" && bound != len(s.Ports) {
		return fmt.Sprintf("%d ports are bound, and its record has %d", bound, len(s.Ports))
	}
	ck.report.Happened["ports bound"] += bound
	got, rest := resource.Allocation{}, lifecycle.WithoutPorts(held)
	for id, amounts := range held {
		if len(rest[id]) == 0 {
			got[id] = amounts
		}
	}
	if want := ck.network.guaranteed(s); !got.Equal(want) {
		return fmt.Sprintf("it holds %v for its ports, which request %v", got, want)
	}
	return ""
}

// guaranteed returns what a server must have in Placement for its ports.
func (nm *networkModel) guaranteed(s lifecycle.Server) resource.Allocation {
	all := resource.Allocation{}
	for _, id := range nm.ids {
		p := nm.ports[id]
		if p.Device != s.ID || s.Host == "" || p.Request == nil {
			continue
		}
		at := bridgeOf(s.Host)
		if p.VNIC == direct {
			m := nm.byName[s.Host]
			vf, ok := m.portVF(network.SlotOf(p.Profile))
			if !ok {
				continue
			}
			at = m.nicOf(vf)
		}
		if all[at] == nil {
			all[at] = resource.Amounts{}
		}
		for _, g := range p.Request.Groups {
			for class, n := range g.Resources {
				all[at][class] += n
			}
		}
	}
	return all
}

// randomNetworks returns the networks that the user requests for a server: mostly none, or with Options.Direct mostly
// ports of vnic type direct.
func (op *operations) randomNetworks() (list []lifecycle.NetworkRequest) {
	for op.oneIn(4) != op.options.Direct && len(list) < 3 {
		kind := op.rng.IntN(5)
		if op.options.Direct && op.halfTheTime() {
			kind = 3
		}
		switch kind {
		case 0:
			list = append(list, lifecycle.NetworkRequest{Network: plainNetwork})
		case 1:
			list = append(list, lifecycle.NetworkRequest{Network: guaranteedNetwork})
		case 2:
			p := op.network.create(plainNetwork, "normal", 100*op.rng.IntN(4))
			list = append(list, lifecycle.NetworkRequest{Port: p.ID, Network: p.Network})
		default:
			p := op.network.create(directNetwork, direct, directRate*op.rng.IntN(4))
			list = append(list, lifecycle.NetworkRequest{Port: p.ID, Network: p.Network})
		}
	}
	return list
}

// remove requests the deletion of a server.
func (cm *computeModel) remove(id string) {
	s := cm.servers[id]
	cm.note("delete", id, s.Host, string(s.State))
	cm.reason(id, "delete")
	cm.event = lifecycle.DeleteRequested{}
	cm.retryLater(id, cm.conductor.Delete(background, id))
	cm.event = nil
	if cm.broken == Early && cm.servers[id].State == lifecycle.DeletingGuest {
		cm.placement.drop(resource.ConsumerID(id))
	}
}

package sim

import (
	"fmt"
	"maps"
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

// networkService is the network service: its ports, with the rules of package network/operations. Users create ports
// with a policy of their own too, and change policies.
type networkModel struct {
	*kernel
	*hostModel
	*exemptions
	placement *placementModel

	ports map[string]network.Port
	// inactive are the bindings of ports to the destinations of live migrations, by port and host.
	inactive map[string]map[string]network.PortBinding
	ids      []string // of ports, in the order in which they were created
	lastRead string   // the port that compute has read last
}

func (nm *networkModel) port(id string) (network.Port, error) {
	p, exists := nm.ports[id]
	if !exists {
		return p, notFound("port", id)
	}
	return p, nil
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

// directVIF binds a port of vnic type direct: it must have a VF of its physical network.
func (nm *networkModel) directVIF(p network.Port) string {
	if physnet, _ := p.Profile["physical_network"].(string); network.SlotOf(p.Profile) == "" || physnet != "physnet1" {
		return "binding_failed"
	}
	nm.checkNIC(p)
	return "hw_veb"
}

// checkNIC: a port is bound with a VF of its host, and what it requests of bandwidth is allocated on the NIC of the VF.
func (nm *networkModel) checkNIC(p network.Port) {
	if why := nm.nicFault(p); why != "" && !nm.rolledBack[p.Device] && !nm.altered[p.Device] {
		nm.violation(nm.byName[p.Host], "nic: port %s of server %s is bound with %s: %s", p.ID, p.Device,
			network.SlotOf(p.Profile), why)
	}
}

// nicFault returns what is wrong with the VF and the allocation of a bound port; empty if nothing is.
func (nm *networkModel) nicFault(p network.Port) string {
	m := nm.byName[p.Host]
	vf, ok := m.portVF(network.SlotOf(p.Profile))
	if !ok {
		return "its host has no such VF for ports"
	}
	for group, on := range p.Allocation() {
		if provider.ID(on) != m.nicOf(vf) {
			return fmt.Sprintf("the group %s is allocated on %s, and the NIC of the VF is %s", group, on, m.nicOf(vf))
		}
	}
	if p.Request != nil && len(p.Allocation()) != len(p.Request.Groups) {
		return fmt.Sprintf("%d groups are allocated, and it requests %d", len(p.Allocation()), len(p.Request.Groups))
	}
	return ""
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

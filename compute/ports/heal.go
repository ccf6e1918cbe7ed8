package ports

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/allocations"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// This file heals bound ports: binding:profile.allocation names a provider for each group that a port requests, and
// Placement has the amounts of all ports of the server, and its devices if Placement counts them. Both differ when a
// port got a policy while it was bound, after a database was restored, or when a host begins to report the devices of
// ports. Ports that the record of the server has and that are not bound to its host any more are bound again.

// HealPorts finds the servers on hosts whose bound ports lack an allocation, or have a wrong one, and heals them if
// apply is set. It returns an entry for each such server. A server is healed with all its ports or not at all. Without
// names it examines all hosts, else the given host or the given servers. It returns fault.NotFound for a host or a
// server that does not exist. The context must not end with a request: what is begun is completed or undone.
func (b *Binder) HealPorts(ctx context.Context, host string, servers []string, apply bool) ([]Healing, error) {
	ctx, stop, err := b.Leased(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	h := b.planner()
	list, err := h.serversWithPorts(ctx, host, servers)
	if err != nil {
		return nil, err
	}
	var found []Healing
	for _, s := range list {
		var one Healing
		if !apply {
			_, one, err = h.examine(ctx, s.ID)
		} else if !b.Alone(s.ID, func() { one, err = b.heal(ctx, h, s.ID) }) {
			one = Healing{Server: s.ID, Name: s.Name, Host: s.Host, State: Busy,
				Reason: "a step of the server is due; try again later"}
		}
		if err != nil {
			return found, err
		}
		if one.State != "" {
			found = append(found, one)
		}
	}
	return found, nil
}

// serversWithPorts returns the servers to examine, by name and id. Servers that are not on a host are left out.
func (h portPlanner) serversWithPorts(ctx context.Context, host string, ids []string) (list []lifecycle.Server,
	err error) {
	for _, id := range ids {
		s, err := h.store.Read(ctx, id)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	var hosts []schedule.Host
	switch {
	case len(ids) > 0:
	case host != "":
		one, err := h.store.Host(ctx, host)
		if err != nil {
			return nil, err
		}
		hosts = []schedule.Host{one}
	default:
		if hosts, err = h.store.Hosts(ctx); err != nil {
			return nil, err
		}
	}
	for _, one := range hosts {
		on, err := h.store.OnHost(ctx, one.Name)
		if err != nil {
			return nil, err
		}
		list = append(list, on...)
	}
	slices.SortFunc(list, func(a, b lifecycle.Server) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID))
	})
	list = slices.CompactFunc(list, func(a, b lifecycle.Server) bool { return a.ID == b.ID })
	return slices.DeleteFunc(list, func(s lifecycle.Server) bool {
		return s.Host == "" || host != "" && s.Host != host
	}), nil
}

// portsSettled reports whether the ports of a server belong to its host and no step changes them: it is active, or
// waits for the confirmation of its resize.
func portsSettled(s lifecycle.Server) bool {
	return (s.State == lifecycle.Active || s.Phase() == lifecycle.Resized) && len(s.Steps()) == 0 && s.TaskState() == ""
}

// portsLeave reports whether a server loses its ports, or has none.
func portsLeave(s lifecycle.Server) bool {
	switch s.State {
	case lifecycle.Active, lifecycle.Moving, lifecycle.Claiming, lifecycle.AwaitingMinCount, lifecycle.BindingPorts,
		lifecycle.Spawning:
		return len(s.Networks) == 0 || s.Host == ""
	}
	return true
}

// heal plans the healing of a server and performs it.
func (b *Binder) heal(ctx context.Context, planner portPlanner, id string) (out Healing, err error) {
	plan, out, err := planner.examine(ctx, id)
	if err == nil && out.State == NeedHealing {
		b.apply(ctx, plan, &out)
	}
	return out, err
}

// examine plans the healing of a server. State of the result is empty if the server needs none. It returns an error if
// compute's database does not answer.
func (h portPlanner) examine(ctx context.Context, id string) (plan portsPlan, out Healing, err error) {
	s, err := h.store.Read(ctx, id)
	if err != nil || s.Host == "" {
		return plan, out, err
	}
	out = Healing{Server: s.ID, Name: s.Name, Host: s.Host}
	if !portsSettled(s) {
		if !portsLeave(s) {
			out.State, out.Reason = Busy, "a step of the server is due; try again later"
		}
		return plan, out, nil
	}
	host, err := h.store.Host(ctx, s.Host)
	if err != nil {
		return plan, out, err
	}
	plan = portsPlan{server: s, host: host}
	if plan.before, err = h.boundPorts(ctx, s); err != nil {
		out.State, out.Reason = NotRead, fault.TextOf(err)
		return plan, out, nil
	}
	plan.bound = slices.Clone(plan.before)
	if err = h.addLostPorts(ctx, &plan, &out); err != nil {
		out.State, out.Reason = NotRead, fault.TextOf(err)
		return plan, out, nil
	}
	if len(plan.before) == 0 {
		return plan, out, nil
	}
	held, err := h.placement.Allocation(ctx, resource.ConsumerID(s.ID))
	if err == nil {
		err = h.plan(ctx, &plan, &out, held.Allocation)
	}
	if err != nil {
		out.State, out.Reason = NotAllocated, fault.TextOf(err)
	}
	return plan, out, nil
}

// boundPorts returns the ports of a server that are bound to its host, by id.
func (h portPlanner) boundPorts(ctx context.Context, s lifecycle.Server) ([]network.Port, error) {
	if h.network == nil {
		if len(s.Networks) == 0 {
			return nil, nil
		}
		return nil, fault.New(fault.Unavailable, "the ports of the server are not reachable: no "+
			"network service is configured; set [neutron] endpoint_override")
	}
	ports, err := h.network.Ports(ctx, url.Values{deviceID: {s.ID}})
	if err != nil {
		return nil, err
	}
	ports = slices.DeleteFunc(ports, func(p network.Port) bool { return p.Host != s.Host })
	slices.SortFunc(ports, func(a, b network.Port) int { return strings.Compare(a.ID, b.ID) })
	return ports, nil
}

// plan computes the ports and the allocation of a healed server, and describes the changes in out. held is the
// allocation of the server.
func (h portPlanner) plan(ctx context.Context, p *portsPlan, out *Healing, held resource.Allocation) error {
	left := portClassesOf(held).Excess(amountsOf(p.bound))
	var err error
	p.held = held
	if p.tree, err = h.tree(ctx, p.host.Provider); err != nil {
		return err
	}
	p.devices = resource.Allocation{}
	for i, port := range p.bound {
		change := HealedPort{ID: port.ID, Bind: port.Host != p.before[i].Host || port.Device != p.before[i].Device}
		p.others = amountsOf(p.after).Add(amountsOf(p.bound[i+1:]))
		next, err := h.healedPort(ctx, p, port, left, &change)
		if err != nil {
			return err
		}
		p.after = append(p.after, next)
		if at, class := deviceUnit(p.host, port); at != "" {
			p.devices = p.devices.Add(resource.Allocation{at: {class: 1}})
			if p.devices[at][class] > held[at][class] {
				change.Device = network.SlotOf(port.Profile)
			}
		}
		if change.Bind || change.Groups != nil || change.Device != "" || change.Reason != "" {
			out.Ports = append(out.Ports, change)
		}
		if change.Reason != "" {
			out.State, out.Reason = NotAllocated, "port "+port.ID+": "+change.Reason
		}
	}
	p.wants = amountsOf(p.after)
	next := p.allocation(held)
	out.Adds, out.Removes = next.Excess(held), held.Excess(next)
	if out.State == "" && (len(out.Ports) > 0 || len(out.Adds)+len(out.Removes) > 0) {
		out.State = NeedHealing
	}
	return nil
}

// allocation returns the allocation of the healed server that has held.
func (p portsPlan) allocation(held resource.Allocation) resource.Allocation {
	next := lifecycle.WithoutPorts(held).Add(p.wants)
	return next.Add(p.devices.Excess(held))
}

// apply writes the ports of a plan, and then the server's allocation. If one is refused, it restores the ports that are
// written, and sets the reason. Only the end of the lease interrupts it: the context is not that of a request.
func (b *Binder) apply(ctx context.Context, p portsPlan, out *Healing) {
	written := 0
	refusal, err := "", error(nil)
	if len(out.Adds) > 0 {
		refusal, err = b.countHealed(ctx, p.server.ID, p.after)
	}
	if err != nil || refusal != "" {
		out.State, out.Reason = NotAllocated, cmp.Or(refusal, fault.TextOf(err))
		return
	}
	for i, port := range p.after {
		if err = b.writePort(ctx, p.server, p.before[i], port); err != nil {
			out.State, out.Reason = NotWritten, "port "+port.ID+": "+fault.TextOf(err)
			break
		}
		written++
	}
	if err == nil {
		if err = b.writeAllocation(ctx, p); err == nil {
			out.State = Healed
			return
		}
		out.State, out.Reason = NotAllocated, fault.TextOf(err)
	}
	if len(out.Adds) > 0 {
		if _, err := b.countHealed(ctx, p.server.ID, p.before); err != nil {
			b.Log.Warn("quota of a server that is not healed counts the healed amounts", "server", p.server.ID, "error", err)
		}
	}
	var lost []string
	for i, port := range p.before[:min(written+1, len(p.before))] { // the answer of the last one may have been lost
		if err := b.writePort(ctx, p.server, p.after[i], port); err != nil && i < written {
			lost = append(lost, port.ID)
		}
	}
	if len(lost) > 0 {
		out.State = NotRestored
		out.Reason += "; ports " + strings.Join(lost, ", ") + " keep a binding:profile.allocation that Placement does " +
			"not have: repeat the healing, or remove it"
	}
}

// writeAllocation writes the allocation of a plan, also when another client changes it at the same time.
func (b *Binder) writeAllocation(ctx context.Context, p portsPlan) error {
	consumer := resource.ConsumerID(p.server.ID)
	err := b.Writer.Update(ctx, consumer, func(held placement.ConsumerAllocation) error {
		next := p.allocation(held.Allocation)
		if next.Equal(held.Allocation) {
			return nil
		}
		held.Allocation, held.Project, held.User = next, p.server.Project, p.server.User
		held.ConsumerType, held.Mappings = "INSTANCE", nil
		return b.Writer.PutAllocation(ctx, consumer, held)
	})
	if allocations.Changed(err) {
		err = fault.New(fault.Unavailable, "the allocation of server %s changes too often; try again later", p.server.ID)
	}
	return err
}

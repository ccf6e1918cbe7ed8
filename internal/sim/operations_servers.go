package sim

import (
	"fmt"
	"maps"
	"slices"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/resource"
)

// create creates one server, or several in one request.
func (op *operations) create() {
	n, least := 1, 0
	if op.rng.IntN(10) == 0 {
		n = 2 + op.rng.IntN(2)
		least = 1 + op.rng.IntN(n)
	}
	op.next++
	zone, name := op.rng.IntN(len(op.zones)), fmt.Sprintf("s%012d", op.next)
	f := op.randomFlavor(zone)
	var servers []lifecycle.Server
	var networks []lifecycle.NetworkRequest
	if n == 1 && !slices.Contains(op.options.Without, Ports) {
		networks = op.randomNetworks()
	}
	for i := range n {
		s := lifecycle.Server{ID: fmt.Sprintf("%s.%d", name, i), Name: name, Project: "project", User: "user", Flavor: f,
			MinCount: least, Networks: networks, Group: op.groupFor(op.next),
			Metadata: map[string]string{"zone": fmt.Sprint(zone)}}
		op.note("create", s.ID, "", f.ExtraSpecs["pci_passthrough:alias"])
		servers = append(servers, s)
	}
	_, _ = op.compute.conductor.Create(background, servers...)
}

// requestAction requests a random action of some server, as a user or an operator.
func (op *operations) requestAction() {
	ids := op.compute.ids.list
	if len(ids) == 0 {
		return
	}
	actions := []lifecycle.Action{lifecycle.Stop, lifecycle.Start, lifecycle.Reboot, lifecycle.Rebuild, lifecycle.Resize,
		lifecycle.Resize,
		lifecycle.Migrate, lifecycle.Live, lifecycle.Live, lifecycle.Live, lifecycle.Live, lifecycle.Confirm,
		lifecycle.Revert, lifecycle.Shelve,
		lifecycle.Unshelve, lifecycle.Snapshot, lifecycle.Pause, lifecycle.Unpause, lifecycle.Suspend, lifecycle.Resume,
		lifecycle.Rescue, lifecycle.Unrescue}
	if op.options.Held {
		actions = append(actions, lifecycle.Restore, lifecycle.Restore, lifecycle.Shelve)
	}
	for range 4 {
		s := op.compute.servers[ids[op.rng.IntN(len(ids))]]
		action := actions[op.rng.IntN(len(actions))]
		switch {
		case op.broken == Demolish && op.halfTheTime():
			action = lifecycle.Rebuild
		case op.broken == Uncounted && op.halfTheTime(): // a late report of the state of a guest is not true any more
			action = []lifecycle.Action{lifecycle.Stop, lifecycle.Start}[op.rng.IntN(2)]
		}
		if s.Phase() == lifecycle.Resized { // only these end this state
			action = []lifecycle.Action{lifecycle.Confirm, lifecycle.Revert}[op.rng.IntN(2)]
		}
		if s.Refuse(lifecycle.Start, false) == "" && op.halfTheTime() { // few servers are stopped
			action = lifecycle.Start
		}
		if s.Refuse(lifecycle.Unrescue, false) == "" && op.halfTheTime() {
			action = lifecycle.Unrescue
		}
		if s.State == lifecycle.Shelved {
			action = lifecycle.Unshelve
		}
		if !s.ShelvedAt.IsZero() {
			action = []lifecycle.Action{lifecycle.Unshelve, lifecycle.Offload}[op.rng.IntN(2)]
		}
		if op.ask(s, action) {
			return
		}
	}
}

// ask requests an action of the conductor, and reports whether it has started.
func (op *operations) ask(s lifecycle.Server, action lifecycle.Action) bool {
	hard := op.rng.IntN(2) == 0
	if !s.Ended.IsZero() || s.Refuse(action, hard) != "" {
		return false
	}
	e := lifecycle.ActionRequested{ID: op.name("m"), Action: action, Hard: hard,
		EvacuateOptions: lifecycle.EvacuateOptions{KeepStopped: hard && action == lifecycle.Evacuate}}
	if action == lifecycle.Rescue {
		e.Image = "rescue image"
	}
	if action == lifecycle.Snapshot {
		e.Copy = lifecycle.ImageCopy{Name: "copy", Properties: map[string]string{"snapshot_of": s.ID}}
	}
	if action == lifecycle.AbortLive || action == lifecycle.ForceLive {
		e.Migration = s.Migration.ID
	}
	if h := op.compute.states[s.Host]; action == lifecycle.Evacuate && op.servedBy(h) != nil && !h.reported {
		return false // a real agent would have reported by now
	}
	outOfReach := action == lifecycle.Evacuate && op.compute.outOfReach(s.Host)
	if action == lifecycle.Resize || action == lifecycle.Migrate {
		if e.SameHost = op.rng.IntN(3) > 0 && action == lifecycle.Resize; e.SameHost && op.rng.IntN(2) == 0 {
			e.To = s.Host
		}
		if action == lifecycle.Resize {
			e.Flavor = op.randomFlavor(zoneOf(s))
		}
	}
	op.compute.event = e
	_, err := op.compute.conductor.Act(background, s.ID, e)
	op.compute.event = nil
	op.compute.retryLater(s.ID, err)
	if op.compute.servers[s.ID].LastAction != e.ID {
		return false
	}
	op.note(string(action), s.ID, s.Host, e.To)
	switch action {
	case lifecycle.Resize, lifecycle.Migrate, lifecycle.Live, lifecycle.Evacuate, lifecycle.Shelve,
		lifecycle.Offload:
		op.compute.reason(s.ID, string(action))
	}
	op.evacuated[s.ID] = op.evacuated[s.ID] || outOfReach
	return true
}

// requestOfMigration aborts a live migration in progress, or forces its completion, as an operator.
func (op *operations) requestOfMigration() {
	var moving []lifecycle.Server
	for _, id := range op.compute.ids.list {
		if s := op.compute.servers[id]; s.Move != nil && s.Move.Kind == lifecycle.LiveMigration {
			moving = append(moving, s)
		}
	}
	if len(moving) == 0 {
		return
	}
	action := lifecycle.AbortLive
	if op.oneIn(3) {
		action = lifecycle.ForceLive
	}
	op.ask(moving[op.rng.IntN(len(moving))], action)
}

// evacuate evacuates a server from a host that does not report.
func (op *operations) evacuate() {
	m := op.hosts[op.rng.IntN(len(op.hosts))]
	for _, o := range op.hosts {
		if (o.agent == nil || o.cut) && op.rng.IntN(2) == 0 {
			m = o
			break
		}
	}
	for _, id := range slices.Sorted(maps.Keys(m.host.servers)) {
		if s := op.compute.servers[id]; s.Host == m.name && op.ask(s, lifecycle.Evacuate) {
			return
		}
	}
}

// foreignClient allocates amounts of a provider for another consumer, or deletes such an allocation.
func (op *operations) foreignClient() {
	if len(op.placement.foreignConsumers) > 0 && (len(op.placement.foreignConsumers) > 20 || op.rng.IntN(2) == 0) {
		i := op.rng.IntN(len(op.placement.foreignConsumers))
		op.note("foreign", op.placement.foreignConsumers[i], "", "gives back")
		op.placement.drop(resource.ConsumerID(op.placement.foreignConsumers[i]))
		op.placement.foreignConsumers = slices.Delete(op.placement.foreignConsumers, i, i+1)
		return
	}
	m := op.hosts[op.rng.IntN(len(op.hosts))]
	ids := op.placement.TreeIDs(m.root)
	if len(ids) == 0 {
		return
	}
	p, _ := op.placement.Provider(ids[op.rng.IntN(len(ids))])
	amounts := resource.Amounts{}
	for _, class := range slices.Sorted(maps.Keys(p.Inventories)) {
		amounts[class] = 1
	}
	id := op.name(foreign)
	held := placement.ConsumerAllocation{Allocation: resource.Allocation{p.ID: amounts}, Project: "project", User: "user",
		ConsumerType: "INSTANCE"}
	if len(amounts) > 0 && op.placement.PutAllocation(background, resource.ConsumerID(id), held) == nil {
		op.placement.foreignConsumers = append(op.placement.foreignConsumers, id)
		op.note("foreign", id, m.name, "takes of "+p.Name)
	}
}

// stealAllocation deletes the part of a server's allocation that is for a device, as when an operator deletes
// allocations by hand. The server's agent must write it again; until then the claim does not exist.
func (op *operations) stealAllocation() {
	ids := op.compute.ids.list
	for range min(8, len(ids)) {
		s := op.compute.servers[ids[op.rng.IntN(len(ids))]]
		c := resource.ConsumerID(s.ID)
		held := op.placement.Held(c)
		m := op.byName[s.Host]
		if s.State != lifecycle.Active || s.Task != "" || len(s.Requests) == 0 || len(held) < 2 || m.zombie {
			continue
		}
		rest := maps.Clone(held)
		for _, id := range slices.Sorted(maps.Keys(rest)) {
			if id != m.root {
				delete(rest, id)
				break
			}
		}
		op.note("steal", s.ID, s.Host, "")
		op.altered[s.ID] = true
		op.placement.SetAllocation(c, rest)
		op.agents.changed(m)
		return
	}
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

// randomFlavor returns a flavor of a zone.
func (op *operations) randomFlavor(zone int) flavor.Flavor {
	flavors := op.zones[zone].flavors
	return flavors[op.rng.IntN(len(flavors))]
}

func (op *operations) createSome() {
	if len(op.compute.ids.list) < 2*len(op.hosts) {
		op.create()
	} else {
		op.removeSome()
	}
}

func (op *operations) removeSome() {
	ids := op.compute.ids.list
	switch {
	case len(ids) == 0:
	case op.options.Held && op.halfTheTime():
		op.softDelete(ids[op.rng.IntN(len(ids))])
	default:
		op.compute.remove(ids[op.rng.IntN(len(ids))])
	}
}

package sim

import (
	"fmt"
	"maps"
	"slices"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/resource"
)

// create creates one server, or several in one request.
func (w *World) create() {
	n, least := 1, 0
	if w.rng.IntN(10) == 0 {
		n = 2 + w.rng.IntN(2)
		least = 1 + w.rng.IntN(n)
	}
	w.next++
	zone, name := w.rng.IntN(len(w.zones)), fmt.Sprintf("s%012d", w.next)
	f := w.randomFlavor(zone)
	var servers []lifecycle.Server
	var networks []lifecycle.NetworkRequest
	if n == 1 && !slices.Contains(w.o.Without, Ports) {
		networks = w.randomNetworks()
	}
	for i := range n {
		s := lifecycle.Server{ID: fmt.Sprintf("%s.%d", name, i), Name: name, Project: "project", User: "user", Flavor: f,
			MinCount: least, Networks: networks,
			Metadata: map[string]string{"zone": fmt.Sprint(zone)}}
		w.note("create", s.ID, "", f.ExtraSpecs["pci_passthrough:alias"])
		servers = append(servers, s)
	}
	_, _ = w.compute.conductor.Create(background, servers...)
}

// requestAction requests a random action of some server, as a user or an operator.
func (w *World) requestAction() {
	ids := w.compute.ids.list
	if len(ids) == 0 {
		return
	}
	actions := []lifecycle.Action{lifecycle.Stop, lifecycle.Start, lifecycle.Reboot, lifecycle.Rebuild, lifecycle.Resize,
		lifecycle.Resize,
		lifecycle.Migrate, lifecycle.Live, lifecycle.Live, lifecycle.Confirm, lifecycle.Revert, lifecycle.Shelve,
		lifecycle.Unshelve, lifecycle.Unshelve}
	for range 4 {
		s := w.compute.servers[ids[w.rng.IntN(len(ids))]]
		action := actions[w.rng.IntN(len(actions))]
		if w.broken == Demolish && w.halfTheTime() {
			action = lifecycle.Rebuild
		}
		if s.Phase() == lifecycle.Resized { // only these end this state
			action = []lifecycle.Action{lifecycle.Confirm, lifecycle.Revert}[w.rng.IntN(2)]
		}
		if w.ask(s, action) {
			return
		}
	}
}

// ask requests an action of the conductor, and reports whether it has started.
func (w *World) ask(s lifecycle.Server, action lifecycle.Action) bool {
	hard := w.rng.IntN(2) == 0
	if !s.Ended.IsZero() || s.Refuse(action, hard) != "" {
		return false
	}
	e := lifecycle.ActionRequested{ID: w.name("m"), Action: action, Hard: hard}
	if h := w.compute.hosts[s.Host]; action == lifecycle.Evacuate && w.compute.servedBy(h) != nil && !h.reported {
		return false // a real agent would have reported by now
	}
	outOfReach := action == lifecycle.Evacuate && w.outOfReach(s.Host)
	if action == lifecycle.Resize || action == lifecycle.Migrate {
		if e.SameHost = w.rng.IntN(3) > 0 && action == lifecycle.Resize; e.SameHost && w.rng.IntN(2) == 0 {
			e.To = s.Host
		}
		if action == lifecycle.Resize {
			e.Flavor = w.randomFlavor(zoneOf(s))
		}
	}
	w.compute.event = e
	_, err := w.compute.conductor.Act(background, s.ID, e)
	w.compute.event = nil
	w.compute.retryLater(s.ID, err)
	if w.compute.servers[s.ID].LastAction != e.ID {
		return false
	}
	w.note(string(action), s.ID, s.Host, e.To)
	switch action {
	case lifecycle.Resize, lifecycle.Migrate, lifecycle.Live, lifecycle.Evacuate, lifecycle.Shelve:
		w.compute.reason(s.ID, string(action))
	}
	w.evacuated[s.ID] = w.evacuated[s.ID] || outOfReach
	return true
}

// evacuate evacuates a server from a host that does not report.
func (w *World) evacuate() {
	m := w.hosts[w.rng.IntN(len(w.hosts))]
	for _, o := range w.hosts {
		if (o.agent == nil || o.cut) && w.rng.IntN(2) == 0 {
			m = o
			break
		}
	}
	for _, id := range slices.Sorted(maps.Keys(m.host.servers)) {
		if s := w.compute.servers[id]; s.Host == m.name && w.ask(s, lifecycle.Evacuate) {
			return
		}
	}
}

// foreignClient allocates amounts of a provider for another consumer, or deletes such an allocation.
func (w *World) foreignClient() {
	if len(w.foreignConsumers) > 0 && (len(w.foreignConsumers) > 20 || w.rng.IntN(2) == 0) {
		i := w.rng.IntN(len(w.foreignConsumers))
		w.note("foreign", w.foreignConsumers[i], "", "gives back")
		w.drop(resource.ConsumerID(w.foreignConsumers[i]))
		w.foreignConsumers = slices.Delete(w.foreignConsumers, i, i+1)
		return
	}
	m := w.hosts[w.rng.IntN(len(w.hosts))]
	ids := w.placement.TreeIDs(m.root)
	if len(ids) == 0 {
		return
	}
	p, _ := w.placement.Provider(ids[w.rng.IntN(len(ids))])
	amounts := resource.Amounts{}
	for _, class := range slices.Sorted(maps.Keys(p.Inventories)) {
		amounts[class] = 1
	}
	id := w.name(foreign)
	held := placement.ConsumerAllocation{Allocation: resource.Allocation{p.ID: amounts}, Project: "project", User: "user",
		ConsumerType: "INSTANCE"}
	if len(amounts) > 0 && w.placement.PutAllocation(background, resource.ConsumerID(id), held) == nil {
		w.foreignConsumers = append(w.foreignConsumers, id)
		w.note("foreign", id, m.name, "takes of "+p.Name)
	}
}

// stealAllocation deletes the part of a server's allocation that is for a device, as when an operator deletes
// allocations by hand. The server's agent must write it again; until then the claim does not exist.
func (w *World) stealAllocation() {
	ids := w.compute.ids.list
	for range min(8, len(ids)) {
		s := w.compute.servers[ids[w.rng.IntN(len(ids))]]
		c := resource.ConsumerID(s.ID)
		held := w.placement.Held(c)
		m := w.byName[s.Host]
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
		w.note("steal", s.ID, s.Host, "")
		w.altered[s.ID] = true
		w.placement.SetAllocation(c, rest)
		w.changed(m)
		return
	}
}

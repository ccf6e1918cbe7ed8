package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// zone is some hosts with classes of their own, so that a question concerns a few of many.
type zone struct {
	aliases pci.Aliases
	flavors []flavor.Flavor
}

func zoneTrait(n int) resource.Trait { return resource.Trait(fmt.Sprintf("CUSTOM_ZONE_%d", n)) }

func newZone(n int) zone {
	alias := func(name, class, more string) string {
		return fmt.Sprintf(`{"name": "%s", "resource_class": "%s_%d"%s}`, name, class, n, more)
	}
	aliases, err := pci.ParseAliases(true,
		alias("gpu", "GPU", `, "vendor_id": "10de", "product_id": "1db4"`),
		alias("better", "GPU", `, "traits": "CUSTOM_BETTER"`),
		alias("livegpu", "GPU", `, "live_migratable": "yes"`),
		alias("vf", "VF", `, "device_type": "type-VF", "traits": "CUSTOM_GOOD"`),
		alias("livevf", "VF", `, "device_type": "type-VF", "live_migratable": "yes"`),
		alias("pf", "PF", `, "device_type": "type-PF"`),
		alias("nvme", "NVME", ``))
	if err != nil {
		panic(fmt.Sprintf("the simulation's own aliases: %v", err))
	}
	z := zone{aliases: aliases}
	for i, f := range []struct {
		aliases string
		nodes   int
		policy  string
	}{{}, {aliases: "gpu:1"}, {aliases: "gpu:2"}, {aliases: "livegpu:1"}, {aliases: "vf:1"}, {aliases: "vf:3"},
		{aliases: "livevf:2"},
		{aliases: "pf:1"}, {aliases: "nvme:1"}, {aliases: "gpu:1", nodes: 1, policy: "required"}, {aliases: "vf:2", nodes: 2},
		{nodes: 2}, {aliases: "better:1"}, {aliases: "livevf:1", nodes: 1, policy: "preferred"}} {
		specs := map[string]string{"trait:" + string(zoneTrait(n)): "required"}
		if f.aliases != "" {
			specs["pci_passthrough:alias"] = f.aliases
		}
		if f.nodes > 0 {
			specs["hw:numa_nodes"] = fmt.Sprint(f.nodes)
		}
		if f.policy != "" {
			specs["hw:pci_numa_affinity_policy"] = f.policy
		}
		z.flavors = append(z.flavors, flavor.Flavor{ID: fmt.Sprint(i), Name: fmt.Sprint("f", i), VCPUs: 2, MemoryMB: 1024,
			DiskGB: 10, ExtraSpecs: specs})
	}
	return z
}

// size is a flavor of a zone.
func (w *World) size(zone int) flavor.Flavor {
	flavors := w.zones[zone].flavors
	return flavors[w.rng.IntN(len(flavors))]
}

// prepare is the question of a server to Placement. It is asked at once: the step reads nothing that may fail.
func (w *World) prepare(s lifecycle.Server) lifecycle.Event {
	var p lifecycle.Prepared
	var err error
	p.Ask, p.Requests, err = flavor.Ask(s.Flavor, s.SourceImage(), w.zones[zoneOf(s)].aliases,
		flavor.Options{PCIInPlacement: true}, func() string { return w.name("r") })
	if err == nil {
		p.Topology, err = flavor.Topology(s.Flavor, s.SourceImage())
	}
	if err != nil {
		w.miss(nil, "flavor: %v", err)
	}
	return p
}

// create begins the lives of one server or of some together.
func (w *World) create() {
	n, least := 1, 0
	if w.rng.IntN(10) == 0 {
		n = 2 + w.rng.IntN(2)
		least = 1 + w.rng.IntN(n)
	}
	zone, name := w.rng.IntN(len(w.zones)), w.name("s")
	f := w.size(zone)
	for i := range n {
		s := lifecycle.Server{ID: name, Name: name, Flavor: f, MinCount: least,
			Metadata: map[string]string{"zone": fmt.Sprint(zone)}}
		if n > 1 {
			s.ID = fmt.Sprintf("%s.%d", name, i)
			w.office.groups[name] = append(w.office.groups[name], s.ID)
		}
		s, _ = lifecycle.Next(s, lifecycle.Created{}, w.now)
		s, _ = lifecycle.Next(s, w.prepare(s), w.now)
		w.note("create", s.ID, "", f.ExtraSpecs["pci_passthrough:alias"])
		w.office.born[s.ID] = true
		w.office.store(lifecycle.Server{}, s)
	}
}

func zoneOf(s lifecycle.Server) (n int) {
	fmt.Sscan(s.Metadata["zone"], &n)
	return n
}

// wish is what a user or an operator wants of some server.
func (w *World) wish() {
	ids := w.office.ids.list
	if len(ids) == 0 {
		return
	}
	actions := []lifecycle.Action{lifecycle.Stop, lifecycle.Start, lifecycle.Reboot, lifecycle.Rebuild, lifecycle.Resize,
		lifecycle.Resize,
		lifecycle.Migrate, lifecycle.Live, lifecycle.Live, lifecycle.Confirm, lifecycle.Revert, lifecycle.Shelve,
		lifecycle.Unshelve, lifecycle.Unshelve}
	for range 4 {
		s := w.office.servers[ids[w.rng.IntN(len(ids))]]
		action := actions[w.rng.IntN(len(actions))]
		if s.Phase() == lifecycle.Resized { // it waits for nothing else
			action = []lifecycle.Action{lifecycle.Confirm, lifecycle.Revert}[w.rng.IntN(2)]
		}
		if w.ask(s, action) {
			return
		}
	}
}

// ask asks for an action, as the Compute API does.
func (w *World) ask(s lifecycle.Server, action lifecycle.Action) bool {
	hard := w.rng.IntN(2) == 0
	if !s.Ended.IsZero() || s.Refuse(action, hard) != "" {
		return false
	}
	e := lifecycle.ActionRequested{ID: w.name("m"), Action: action, Hard: hard}
	switch action {
	case lifecycle.Live:
		if slices.ContainsFunc(s.Requests, func(r pci.Request) bool { return !r.LiveMigratable() }) {
			return false
		}
	case lifecycle.Evacuate:
		if !w.office.silent(s.Host) {
			return false
		}
		w.evacuated[s.ID] = w.evacuated[s.ID] || w.outOfReach(s.Host)
	case lifecycle.Revert:
		if w.office.silent(s.Move.From.Host) {
			return false
		}
	case lifecycle.Resize, lifecycle.Migrate:
		if e.SameHost = w.rng.IntN(3) > 0 && action == lifecycle.Resize; e.SameHost && w.rng.IntN(2) == 0 {
			e.To = s.Host
		}
		if action == lifecycle.Resize {
			e.Flavor = w.size(zoneOf(s))
		}
	}
	w.note(string(action), s.ID, s.Host, e.To)
	switch action {
	case lifecycle.Resize, lifecycle.Migrate, lifecycle.Live, lifecycle.Evacuate, lifecycle.Shelve:
		w.office.reason(s.ID, string(action))
	}
	w.office.tell(s.ID, e)
	if now := w.office.servers[s.ID]; slices.Contains(now.Steps(), lifecycle.Prepare) {
		w.office.tell(s.ID, w.prepare(now))
	}
	return true
}

// remove deletes a server.
func (w *World) remove(id string) {
	s := w.office.servers[id]
	silent := slices.ContainsFunc(s.Residences(), func(stay lifecycle.Residence) bool {
		return w.office.silent(
			stay.Host)
	})
	w.note("delete", id, s.Host, s.Stage())
	w.office.reason(id, "delete")
	exists := false
	if h := w.office.hosts[s.Host]; h != nil {
		exists = slices.ContainsFunc(h.seen.guests, func(g schedule.Present) bool { return g.ID == id })
	}
	now := w.office.tell(id, lifecycle.DeleteRequested{Silent: silent, Exists: exists})
	if w.broken == Early && now.State == lifecycle.DeletingGuest {
		w.ledger.drop(resource.ConsumerID(id))
	}
}

// evacuate takes servers away from a host that is silent.
func (w *World) evacuate() {
	m := w.hosts[w.rng.IntN(len(w.hosts))]
	for _, o := range w.hosts {
		if (o.agent == nil || o.cut) && w.rng.IntN(2) == 0 {
			m = o
			break
		}
	}
	for _, id := range slices.Sorted(mapsKeys(m.host.servers)) {
		if s := w.office.servers[id]; s.Host == m.name && w.ask(s, lifecycle.Evacuate) {
			return
		}
	}
}

// other is somebody else who takes something of a provider, or gives it back.
func (w *World) other() {
	if len(w.others) > 0 && (len(w.others) > 20 || w.rng.IntN(2) == 0) {
		i := w.rng.IntN(len(w.others))
		w.note("foreign", w.others[i], "", "gives back")
		w.ledger.drop(resource.ConsumerID(w.others[i]))
		w.others = slices.Delete(w.others, i, i+1)
		return
	}
	m := w.hosts[w.rng.IntN(len(w.hosts))]
	ids := w.ledger.trees[m.root]
	if len(ids) == 0 {
		return
	}
	p := w.ledger.providers[ids[w.rng.IntN(len(ids))]]
	amounts := resource.Amounts{}
	for _, class := range slices.Sorted(mapsKeys(p.Inventories)) {
		amounts[class] = 1
	}
	id := w.name(foreign)
	if len(amounts) > 0 &&
		w.ledger.put(map[resource.ConsumerID]claim{resource.ConsumerID(id): {resource.Allocation{p.ID: amounts}, 0}}) == nil {
		w.others = append(w.others, id)
		w.note("foreign", id, m.name, "takes of "+p.Name)
	}
}

// rob takes a device's share from a server behind everybody's back, as when somebody deletes allocations by hand. Its
// agent has to write it anew, and until then the claim is not there.
func (w *World) rob() {
	ids := w.office.ids.list
	for range min(8, len(ids)) {
		s := w.office.servers[ids[w.rng.IntN(len(ids))]]
		c := resource.ConsumerID(s.ID)
		held := w.ledger.consumers[c]
		m := w.byName[s.Host]
		if s.State != lifecycle.Active || s.Task != "" || len(s.Requests) == 0 || len(held.holds) < 2 || m.zombie {
			continue
		}
		rest := maps.Clone(held.holds)
		for _, id := range slices.Sorted(maps.Keys(rest)) {
			if id != m.root {
				delete(rest, id)
				break
			}
		}
		w.note("rob", s.ID, s.Host, "")
		w.robbed[s.ID] = true
		w.ledger.write(c, consumer{rest, held.generation + 1})
		if m.agent != nil {
			m.agent.look = true
		}
		return
	}
}

// far is how long a host is away at most.
const far = 20 * time.Minute

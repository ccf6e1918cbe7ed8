package sim

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/scheduler"
)

// probes compares what compute decides in a quiescent cloud with a search that tries everything on the true hosts: it
// creates servers, and each is placed if and only if it has a place.
type probes struct {
	*cloud
	checks  *checks
	created []string
}

// How many flavors are tried at a rest, how many servers are created of each, and up to which headroom all that fit
// are.
const (
	probedFlavors = 5
	probesEach    = 2
	mostHeadroom  = 6
)

// check probes some flavors of one zone, and deletes the servers that it has created. The random numbers of the cloud
// stay as they would be without it.
func (pr *probes) check() {
	before := pr.rng
	pr.rng = rand.New(rand.NewPCG(pr.options.Seed, uint64(pr.n)))
	defer func() { pr.rng = before }()
	_ = pr.compute.conductor.CheckAssignments(background) // as compute does every few seconds
	zone := pr.rng.IntN(len(pr.zones))
	flavors := append(pr.refused(zone), pr.zones[zone].flavors...)
	for range probedFlavors {
		pr.probe(flavors[pr.rng.IntN(len(flavors))], zone)
	}
	pr.move(zone)
	for _, id := range pr.created {
		pr.compute.remove(id)
		if pr.settle(id); pr.failure == "" && pr.compute.servers[id].ID != "" {
			pr.violation(nil, "rest: the probe %s is not deleted: %s", id, pr.compute.servers[id].State)
		}
	}
	pr.created = nil
}

// refused returns the flavors of the servers of a zone that have no host.
func (pr *probes) refused(zone int) (list []flavor.Flavor) {
	for _, id := range slices.Sorted(maps.Keys(pr.compute.servers)) {
		if s := pr.compute.servers[id]; s.State == lifecycle.Error && zoneOf(s) == zone {
			list = append(list, s.Flavor)
		}
	}
	return list
}

// probe creates servers of a flavor: as many as fit by the headroom and one more, or a few.
func (pr *probes) probe(f flavor.Flavor, zone int) {
	if pr.failure != "" {
		return
	}
	w, err := pr.wantedServer(f)
	if err != nil {
		pr.violation(nil, "flavor: %v", err)
		return
	}
	hosts, reason, err := pr.compute.conductor.Scheduler.Headroom(background, f, nil)
	if err != nil {
		pr.violation(nil, "headroom: of flavor %v: %v", f.ExtraSpecs, err)
		return
	}
	room, exact := sumOf(hosts)
	pr.report.Happened["headroom counted"]++
	certain, possible := pr.placesFor(w, zone)
	if room == 0 && exact && len(certain) > 0 || room > 0 && len(possible) == 0 {
		pr.violation(nil, "headroom: %d servers of %s fit (%s), and trying everything finds places on %v", room,
			describeFlavor(f), reason, certain)
		return
	}
	most := probesEach
	if room <= mostHeadroom {
		most = room + 1
	}
	count := 0
	for count < most && pr.create(w, zone) {
		count++
	}
	if pr.failure == "" && exact && len(certain) == len(possible) && room <= mostHeadroom && count != room {
		pr.violation(nil, "headroom: %d servers of %s fit, and %d were placed", room, describeFlavor(f), count)
	}
}

// sumOf returns how many servers fit on hosts, and whether the numbers are exact.
func sumOf(hosts []scheduler.HostHeadroom) (sum int, exact bool) {
	exact = true
	for _, h := range hosts {
		sum, exact = sum+h.Fits, exact && (h.Exact || h.Excluded != "")
	}
	return sum, exact
}

// create creates a server, and reports whether it is placed.
func (pr *probes) create(w wantedServer, zone int) bool {
	certain, possible := pr.placesFor(w, zone)
	pr.next++
	name := fmt.Sprintf("s%012d", pr.next)
	id := name + ".0"
	pr.note("probe", id, "", describeFlavor(w.Flavor))
	_, err := pr.compute.conductor.Create(background, lifecycle.Server{ID: id, Name: name, Project: "project",
		User: "user", Flavor: w.Flavor, Metadata: map[string]string{"zone": fmt.Sprint(zone)}})
	if err != nil {
		pr.violation(nil, "probe: %v", err)
		return false
	}
	pr.created = append(pr.created, id)
	pr.settle(id)
	s := pr.compute.servers[id]
	switch {
	case pr.failure != "":
	case s.State == lifecycle.Error && len(certain) > 0:
		pr.violation(nil, "refused: server %s of %s has no host (%s), and it fits on %v", id, describeFlavor(w.Flavor),
			lastOf(s), certain)
	case s.State == lifecycle.Error:
		pr.report.Happened["probe refused"]++
	case !isSettled(s):
		pr.violation(pr.byName[s.Host], "rest: the probe %s is %s %s: %s", id, s.State, s.Task, lastOf(s))
	case !slices.Contains(possible, s.Host):
		pr.violation(pr.byName[s.Host], "placed: server %s of %s, which has places on %v", id, describeFlavor(w.Flavor),
			possible)
	default:
		pr.report.Happened["probe placed"]++
		pr.checks.checkPlaces(pr.byName[s.Host])
	}
	return pr.failure == "" && s.State == lifecycle.Active
}

// settle lets compute and the agents of its hosts do what is due for a server.
func (pr *probes) settle(id string) {
	hosts := map[string]bool{}
	for range 60 {
		for range 8 {
			if len(pr.compute.servers[id].Steps()) > 0 {
				pr.compute.perform(id)
			}
		}
		before := pr.compute.servers[id]
		for _, r := range before.Residences() {
			hosts[r.Host] = true
		}
		acted := false
		for _, host := range slices.Sorted(maps.Keys(hosts)) {
			for n := 0; n < 200 && pr.agents.act(pr.byName[host]); n++ {
				pr.checks.checkMarked()
				acted = true
			}
		}
		now := pr.compute.servers[id]
		if pr.failure != "" || isSettled(now) && !acted && before.Stage() == now.Stage() {
			return
		}
		if !acted {
			pr.advance(time.Second)
		}
	}
}

// isSettled reports whether a server, or a deleted one, waits for nothing but users.
func isSettled(s lifecycle.Server) bool {
	active := s.State == lifecycle.Active && s.Task == "" && s.ShelvedImage == nil
	return s.ID == "" || s.State == lifecycle.Error || active || s.Phase() == lifecycle.Resized
}

// move migrates a server of a zone to another host: that happens if and only if it has a place there. Then the move is
// confirmed or reverted.
func (pr *probes) move(zone int) {
	var list []lifecycle.Server
	for _, id := range slices.Sorted(maps.Keys(pr.compute.servers)) {
		s := pr.compute.servers[id]
		if s.State == lifecycle.Active && isSettled(s) && zoneOf(s) == zone && s.Group == "" && len(s.Networks) == 0 &&
			len(s.Ports) == 0 && s.Ended.IsZero() && s.Refuse(lifecycle.Migrate, false) == "" {
			list = append(list, s)
		}
	}
	if pr.failure != "" || len(list) == 0 {
		return
	}
	s := list[pr.rng.IntN(len(list))]
	w, err := pr.wantedServer(s.Flavor)
	if err != nil {
		pr.violation(nil, "flavor: %v", err)
		return
	}
	certain, possible := pr.placesFor(w, zone)
	own := func(host string) bool { return host == s.Host }
	certain, possible = slices.DeleteFunc(certain, own), slices.DeleteFunc(possible, own)
	pr.act(s, lifecycle.Migrate)
	now := pr.compute.servers[s.ID]
	switch {
	case pr.failure != "":
	case now.Phase() == lifecycle.Resized && !slices.Contains(possible, now.Host):
		pr.violation(pr.byName[now.Host], "placed: server %s of %s has moved here, and has places on %v", s.ID,
			describeFlavor(s.Flavor), possible)
	case now.Phase() == lifecycle.Resized:
		pr.report.Happened["probe moved"]++
		pr.checks.checkPlaces(pr.byName[now.Host])
		pr.act(now, []lifecycle.Action{lifecycle.Confirm, lifecycle.Revert}[pr.rng.IntN(2)])
	case len(certain) > 0:
		pr.violation(nil, "refused: server %s of %s stays on %s (%s), and it fits on %v", s.ID, describeFlavor(s.Flavor),
			s.Host, lastOf(now), certain)
	default:
		pr.report.Happened["probe not moved"]++
	}
}

// act requests an action of a server, and lets it end.
func (pr *probes) act(s lifecycle.Server, action lifecycle.Action) {
	e := lifecycle.ActionRequested{ID: pr.name("m"), Action: action}
	pr.note(string(action), s.ID, s.Host, "")
	pr.compute.reason(s.ID, string(action))
	pr.compute.event = e
	_, err := pr.compute.conductor.Act(background, s.ID, e)
	pr.compute.event = nil
	if err != nil {
		pr.violation(nil, "probe: server %s: %s: %v", s.ID, action, err)
	}
	pr.settle(s.ID)
}

// lastOf returns the last entry of the history of a server.
func lastOf(s lifecycle.Server) string {
	if len(s.History) == 0 {
		return ""
	}
	return s.History[len(s.History)-1].Text
}

// describeFlavor returns what a flavor requests.
func describeFlavor(f flavor.Flavor) string {
	return fmt.Sprintf("flavor %s (%d VCPUs, %d MiB, %v)", f.Name, f.VCPUs, f.MemoryMB, f.ExtraSpecs)
}

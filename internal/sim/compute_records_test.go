package sim

import (
	"testing"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
)

// A server is claimed on a host just after an operator has declared it dead, and leaves it because its agent does not
// follow the assignments. What the host may have of the server is named for removal, and that has a reason.
func TestServerThatIsClaimedOnADeadHostLeavesIt(t *testing.T) {
	w := newWorld(Options{Seed: 1, Hosts: 24, Without: []string{Ports}})
	w.quiesce() // agents report their hosts
	w.noFailures = true
	const id = "s000000000001.0"
	s := lifecycle.Server{ID: id, Project: "project", User: "user", Flavor: w.zones[0].flavors[0]}
	if _, err := w.compute.conductor.Create(background, s); err != nil {
		t.Fatal(err)
	}
	perform := func(until lifecycle.State) {
		t.Helper()
		for n := 0; w.compute.servers[id].State != until; n++ {
			if w.compute.perform(id); n > 20 {
				t.Fatalf("the server is %s and does not become %s", w.compute.servers[id].State, until)
			}
		}
	}
	perform(lifecycle.Claiming)
	m := w.byName[w.compute.servers[id].Choices[0].Host]
	w.agents.disconnect(m)
	m.cut = true
	w.declareDead(m)
	perform(lifecycle.Spawning)
	w.checkFollowed() // begins to count how long the assignments are not followed
	w.advance((slowness + 1) * time.Minute)
	w.checkFollowed()
	if s = w.compute.servers[id]; s.State != lifecycle.Rescheduling || s.Host != m.name {
		t.Fatalf("the server is %s on %s", s.State, s.Host)
	}
	perform(lifecycle.Scheduling)
	if list := w.compute.lines(m.host).remove; len(list) != 1 || w.failure != "" {
		t.Errorf("removals %v, %s", list, w.failure)
	}
}

package conduct

import (
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
)

// A server has one guest: compute confirms no claim, and so no guest is built, while another host has a guest of the
// server that compute has not placed there, as after all databases were restored from one backup. It hears the hosts
// before it confirms the claim of an old server.
func TestNoSecondGuestAfterARestore(t *testing.T) {
	world := newCloud(t, map[string]int{"a": 1, "b": 1})
	world.agents.mu.Lock()
	world.agents.dark["a"], world.agents.dark["b"] = true, true
	world.agents.mu.Unlock()
	c, _ := withClocks(t, world)
	s := server("s")
	s.State, s.Host, s.Created = lifecycle.Assigned, "a", c.started.Add(-time.Minute)
	young := server("young")
	young.State, young.Host, young.Created = lifecycle.Assigned, "a", time.Now()
	if err := world.store.Create(t.Context(), s, young); err != nil {
		t.Fatal(err)
	}
	number := int64(0)
	claim := func(id string) error {
		number++
		return c.Guest(t.Context(), id, "start", lifecycle.Told{Host: "a", Instance: "agent-a", Number: number, Of: lifecycle.GuestClaimed{Host: "a", As: id}})
	}
	report := func(host string, present ...schedule.Present) {
		t.Helper()
		h, err := world.store.Host(t.Context(), host)
		if err != nil {
			t.Fatal(err)
		}
		h.Present = present
		if err := c.Report(t.Context(), h, schedule.Sender{Instance: "agent-" + host, Start: "start"}); err != nil {
			t.Fatal(err)
		}
	}
	c.presence.await([]string{"a", "b"})
	report("a", schedule.Present{ID: "s", Server: "s"}) // its own host is not another one
	if err := claim("s"); !fault.Is(err, fault.Unavailable) || !strings.Contains(fault.TextOf(err), "not all hosts have reported") {
		t.Errorf("before b has reported: %v", err)
	}
	if err := claim("young"); err != nil {
		t.Errorf("a server that no host can know better: %v", err)
	}
	report("b", schedule.Present{ID: "s", Server: "s"})
	if err := claim("s"); !fault.Is(err, fault.Conflict) || !strings.Contains(fault.TextOf(err), "host b has a guest of this server") ||
		!strings.Contains(fault.TextOf(err), "berth agent destroy s") {
		t.Errorf("while b has its guest: %v", err)
	}
	report("b", schedule.Present{ID: "s", Server: "s", Assigned: true}) // it is about to leave
	if err := claim("s"); err != nil {
		t.Errorf("after b has none of its own: %v", err)
	}
	report("b", schedule.Present{ID: "s", Server: "s"})
	if err := c.HostDown(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	if err := claim("s"); err != nil {
		t.Errorf("after an operator has declared b dead: %v", err)
	}
}

package conductor

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// A server has one guest. Compute confirms no claim, so that no guest is built, while another host has a guest of
// the server that compute has not placed there, as after a restore of all databases. It awaits the reports of all
// hosts before it confirms the claim of an old server.
func TestNoSecondGuestAfterARestore(t *testing.T) {
	env := newCloud(t, map[string]int{"a": 1, "b": 1})
	env.agents.mu.Lock()
	env.agents.paused["a"], env.agents.paused["b"] = true, true
	env.agents.mu.Unlock()
	c, _ := withClocks(t, env)
	s := server("s")
	s.State, s.Host, s.Created = lifecycle.Spawning, "a", time.Now().Add(-time.Minute)
	young := server("young")
	young.State, young.Host, young.Created = lifecycle.Spawning, "a", time.Now()
	c.Agents.Created([]lifecycle.Server{young})
	if err := env.store.Create(t.Context(), s, young); err != nil {
		t.Fatal(err)
	}
	number := int64(0)
	claim := func(id string) error {
		number++
		return c.Guest(t.Context(), id, "start", lifecycle.Report{Host: "a", Instance: "agent-a", Number: number,
			Event: lifecycle.GuestClaimed{Host: "a", Consumer: id}})
	}
	report := func(host string, present ...schedule.Present) {
		t.Helper()
		h, err := env.store.Host(t.Context(), host)
		if err != nil {
			t.Fatal(err)
		}
		h.Present = present
		if err := c.Agents.Report(t.Context(), h, schedule.Sender{Instance: "agent-" + host, Start: "start"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Agents.AwaitReports(t.Context()); err != nil {
		t.Fatal(err)
	}
	report("a", schedule.Present{ID: "s", Server: "s"}) // its own host is not another one
	if err := claim("s"); !fault.Is(err, fault.Unavailable) || !strings.Contains(fault.TextOf(err),
		"not all hosts have reported") {
		t.Errorf("before b has reported: %v", err)
	}
	if err := claim("young"); err != nil {
		t.Errorf("a server that no host can know better: %v", err)
	}
	report("b", schedule.Present{ID: "s", Server: "s"})
	if err := claim("s"); !fault.Is(err, fault.Conflict) || !strings.Contains(fault.TextOf(err),
		"host b has a guest of this server") ||
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

// A record from a backup may be older than the way back from a move. Neither a claim nor a release frees what the guest
// at the source then holds: it is given to the consumer that the record knows there.
func TestAnOlderRecordFreesNoGuest(t *testing.T) {
	source := schedule.Choice{Host: "a", Root: "root-a", Allocation: resource.Allocation{"pf-a": {class: 1}}}
	for name, c := range map[string]struct {
		step lifecycle.Step
		s    func(*lifecycle.Server)
	}{
		"a claim during a move": {lifecycle.Claim, func(s *lifecycle.Server) {
			s.State, s.Choices = lifecycle.Moving, choices(resource.Allocation{"pf-b": {class: 1}})
			s.Move = &lifecycle.Move{Phase: lifecycle.ClaimingDestination,
				From: lifecycle.Residence{Consumer: "m", Host: "a", Choice: &source}}
		}},
		"a release with a guest left behind": {lifecycle.Release, func(s *lifecycle.Server) {
			s.State, s.Leftovers = lifecycle.DeletingAllocation, []lifecycle.Residence{{Consumer: "m", PreviousConsumer: "s",
				Host: "a", Choice: &source}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			env := newCloud(t, map[string]int{"a": 1, "b": 1})
			conductor, _ := withClocks(t, env)
			conductor.Agents.StopAwaiting()
			env.allocate("s", source.Allocation)
			s := server("s")
			c.s(&s)
			for range 2 { // every step may be repeated
				if _, err := conductor.steps.perform(t.Context(), s, c.step); err != nil {
					t.Fatal(err)
				}
			}
			if got := env.placement.Held("m"); !got.Equal(source.Allocation) {
				t.Errorf("the consumer at the source holds %v", got)
			}
			if got := env.placement.Held("s")["pf-a"]; len(got) > 0 {
				t.Errorf("the server holds %v at the source", got)
			}
		})
	}
}

// A record from a backup may be from before the transfer of the source's allocation to the migration, although the
// server's own consumer has since claimed a destination. The transfer does not replace the source's allocation, which
// the guest there uses.
func TestAnOlderRecordMovesNoOtherAllocations(t *testing.T) {
	source := schedule.Choice{Host: "a", Root: "root-a",
		Allocation: resource.Allocation{"root-a": {"VCPU": 1}, "pf-a": {class: 1}}}
	for name, destination := range map[string]resource.Allocation{
		"another host":                    {"root-b": {"VCPU": 1}, "pf-b": {class: 1}},
		"another device of the same host": {"root-a": {"VCPU": 1}, "qf-a": {class: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			env := newCloud(t, map[string]int{"a": 1, "b": 1})
			env.addProvider("qf-", "a", 1)
			conductor, _ := withClocks(t, env)
			conductor.Agents.StopAwaiting()
			env.allocate("m", source.Allocation)
			env.allocate("s", destination)
			s := server("s")
			s.State = lifecycle.Moving
			s.Move = &lifecycle.Move{Kind: lifecycle.LiveMigration, Phase: lifecycle.MovingAllocations, Consumer: "m",
				From: lifecycle.Residence{Consumer: "s", Host: "a", Choice: &source,
					Devices: []schedule.Picked{{RequestID: "r", Address: "0000:3b:00.0", Provider: "pf-a"}}}}
			for range 2 { // every step may be repeated
				event, err := conductor.steps.perform(t.Context(), s, lifecycle.MoveAllocations)
				if _, moved := event.(lifecycle.AllocationsMoved); err != nil || !moved {
					t.Fatalf("%T %v", event, err)
				}
				if got := env.placement.Held("m"); !got.Equal(source.Allocation) {
					t.Errorf("the migration holds %v", got)
				}
				if got := env.placement.Held("s"); len(got) > 0 {
					t.Errorf("the server holds %v, which its record does not have", got)
				}
			}
		})
	}
}

// A record from a backup may lack that the agent has built the guest. Until the host has reported to this process, the
// allocation of a deleted server is not released before the agent has reported the guest gone.
func TestDeleteOfAnOlderRecordAwaitsTheAgent(t *testing.T) {
	env := newCloud(t, map[string]int{"a": 1, "b": 1})
	env.agents.mu.Lock()
	env.agents.paused["a"], env.agents.paused["b"] = true, true
	env.agents.mu.Unlock()
	c, _ := withClocks(t, env)
	report := func(present ...schedule.Present) {
		t.Helper()
		h, err := env.store.Host(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		h.Present = present
		if err := c.Agents.Report(t.Context(), h, schedule.Sender{Instance: "agent-a", Start: "start"}); err != nil {
			t.Fatal(err)
		}
	}
	state := func(id string, want lifecycle.State, why string) {
		t.Helper()
		s := server(id)
		s.State, s.Host = lifecycle.Spawning, "a"
		if err := env.store.Create(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if err := c.Delete(t.Context(), id, lifecycle.Caller{}); err != nil {
			t.Fatal(err)
		}
		if s, err := env.store.Read(t.Context(), id); err != nil || s.State != want {
			t.Errorf("%s: %s, want %s, %v", why, s.State, want, err)
		}
	}
	state("old", lifecycle.DeletingGuest, "the host has not reported yet")
	c.Agents.Created([]lifecycle.Server{server("young")})
	state("young", lifecycle.DeletingAllocation, "this process has created the server")
	report(schedule.Present{ID: "built", Server: "built", Assigned: true})
	state("built", lifecycle.DeletingGuest, "the host has the guest")
	state("none", lifecycle.DeletingAllocation, "the host has no guest")
}

// A live migration that has ended since the backup: the source does not build the guest again, and its failure does not
// undo the move, while the destination reports the guest.
func TestTheSourceOfAnEndedMoveIsNotBuilt(t *testing.T) {
	env := newCloud(t, map[string]int{"a": 1, "b": 1})
	env.agents.mu.Lock()
	env.agents.paused["a"], env.agents.paused["b"] = true, true
	env.agents.mu.Unlock()
	c, _ := withClocks(t, env)
	c.Agents.StopAwaiting()
	s := server("s")
	s.State, s.Host = lifecycle.Moving, "b"
	s.Migration = &lifecycle.Migration{ID: "m"}
	s.Move = &lifecycle.Move{Kind: lifecycle.LiveMigration, Phase: lifecycle.PreLiveMigration, Consumer: "m",
		From: lifecycle.Residence{Consumer: "m", Host: "a"}}
	if err := env.store.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	number := int64(0)
	say := func(e lifecycle.Event) error {
		number++
		return c.Guest(t.Context(), "m", "start", lifecycle.Report{Host: "a", Instance: "agent-a", Number: number, Event: e})
	}
	report := func(host string, present ...schedule.Present) {
		t.Helper()
		h, err := env.store.Host(t.Context(), host)
		if err != nil {
			t.Fatal(err)
		}
		h.Present = present
		if err := c.Agents.Report(t.Context(), h, schedule.Sender{Instance: "agent-" + host, Start: "start"}); err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range []lifecycle.Event{
		lifecycle.GuestClaimed{Host: "a", Consumer: "m"}, lifecycle.GuestFailed{Host: "a", Consumer: "m", Message: "no"},
	} {
		report("b", schedule.Present{ID: "s", Server: "s", Assigned: true})
		if err := say(e); !fault.Is(err, fault.Conflict) || !strings.Contains(fault.TextOf(err), "has moved to host b") {
			t.Errorf("%T while b has the guest: %v", e, err)
		}
		report("b")
		if err := say(e); err != nil {
			t.Errorf("%T while b has no guest: %v", e, err)
		}
	}
}

// A host builds no second guest of a server beside one that compute has not placed there.
func TestNoSecondGuestOnOneHost(t *testing.T) {
	env := newCloud(t, map[string]int{"a": 1})
	env.agents.mu.Lock()
	env.agents.paused["a"] = true
	env.agents.mu.Unlock()
	c, _ := withClocks(t, env)
	c.Agents.StopAwaiting()
	s := server("s")
	s.State, s.Host = lifecycle.Spawning, "a"
	if err := env.store.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	h, err := env.store.Host(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	for number, guest := range []schedule.Present{{ID: "m", Server: "s"}, {ID: "s", Server: "s"}} {
		h.Present = []schedule.Present{guest}
		if err := c.Agents.Report(t.Context(), h, schedule.Sender{Instance: "agent-a", Start: "start"}); err != nil {
			t.Fatal(err)
		}
		err := c.Guest(t.Context(), "s", "start", lifecycle.Report{Host: "a", Instance: "agent-a", Number: int64(number + 1),
			Event: lifecycle.GuestClaimed{Host: "a", Consumer: "s"}})
		refused := fault.Is(err, fault.Conflict) && strings.Contains(fault.TextOf(err), "berth agent destroy m")
		if refused != (guest.ID == "m") {
			t.Errorf("beside %s: %v", guest.ID, err)
		}
	}
}

// A server that is deleted while its host has a guest of it, which the record from a backup does not know, keeps what
// it holds until the guest is gone.
func TestADeletionAwaitsAGuestThatTheRecordDoesNotKnow(t *testing.T) {
	env := newCloud(t, map[string]int{"a": 1})
	env.agents.mu.Lock()
	env.agents.paused["a"] = true
	env.agents.mu.Unlock()
	c, _ := withClocks(t, env)
	s := server("s")
	s.State, s.Host = lifecycle.Spawning, "a"
	if err := env.store.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	h, err := env.store.Host(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	h.Present = []schedule.Present{{ID: "s", Server: "s", Assigned: true}}
	if err := c.Agents.Report(t.Context(), h, schedule.Sender{Instance: "agent-a", Start: "start"}); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), "s", lifecycle.Caller{}); err != nil {
		t.Fatal(err)
	}
	if s, err = env.store.Read(t.Context(), "s"); err != nil || s.State != lifecycle.DeletingGuest {
		t.Errorf("%s, %v", s.State, err)
	}
}

// After a restore of its database, compute does not change the allocations of servers whose guests contradict its
// records.
func TestARestoredDatabaseTouchesNoForeignAllocation(t *testing.T) {
	for name, c := range map[string]struct {
		present schedule.Present
		behind  string
		host    string
		says    string // empty: the step is done
	}{
		"the guest runs elsewhere": {schedule.Present{ID: "s", Server: "s"}, "", "b",
			"has a guest of this server"},
		"under its migration's id": {schedule.Present{ID: "m", Server: "s"}, "", "b",
			"has a guest of this server"},
		"the host follows newer assignments": {schedule.Present{ID: "s", Server: "s", Assigned: true}, "older", "b",
			"follows newer assignments"},
		"its own host follows newer assignments": {schedule.Present{}, "older", "a", "follows newer assignments"},
		"another server's guest":                 {schedule.Present{ID: "x", Server: "x"}, "", "b", ""},
		"another host follows newer assignments": {schedule.Present{ID: "x", Server: "x"}, "older", "b", ""},
		"an unassigned guest where it was placed": {schedule.Present{ID: "s", Server: "s"}, "", "a",
			"has a guest of this server"},
	} {
		t.Run(name, func(t *testing.T) {
			env := newCloud(t, map[string]int{"a": 1, "b": 1})
			conductor, _ := withClocks(t, env)
			conductor.Agents.StopAwaiting()
			h, err := env.store.Host(t.Context(), c.host)
			if err != nil {
				t.Fatal(err)
			}
			h.Present, h.NotFollowed = []schedule.Present{c.present}, c.behind
			if err := conductor.Agents.Report(t.Context(), h, schedule.Sender{Instance: "agent-" + c.host,
				Start: "start"}); err != nil {
				t.Fatal(err)
			}
			env.allocate("s", resource.Allocation{"pf-b": {class: 1}})
			s := server("s")
			s.State, s.Host = lifecycle.Failing, "a"
			_, err = conductor.steps.perform(t.Context(), s, lifecycle.Release)
			kept := len(env.placement.Held("s")) > 0
			if kept != (c.says != "") || kept && (!fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("kept %v: %v", kept, err)
			}
			if err := conductor.HostDown(context.Background(), c.host); err != nil { // an operator has decided
				t.Fatal(err)
			}
			if _, err := conductor.steps.perform(t.Context(), s, lifecycle.Release); err != nil {
				t.Errorf("after host down: %v", err)
			}
		})
	}
}

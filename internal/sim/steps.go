package sim

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/candidate"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// perform does the first step that is due for a server. The answer may be lost: then it is done again.
func (o *fakeCompute) perform(id string) {
	s := o.servers[id]
	steps := s.Steps()
	if len(steps) == 0 {
		return
	}
	e := o.do(s, steps[0])
	if e == nil {
		o.tell(id, lifecycle.StepFailed{Step: steps[0], Reason: "not now"})
		return
	}
	if o.w.chance(Answers, 15) {
		return
	}
	o.tell(id, e)
}

// do does one step; nil is to be tried again.
func (o *fakeCompute) do(s lifecycle.Server, step lifecycle.Step) lifecycle.Event {
	l := o.w.ledger
	if step != lifecycle.Schedule && step != lifecycle.CheckMinCount && !o.mayWrite(s) {
		return nil
	}
	if step == lifecycle.Claim || step == lifecycle.Release {
		if err := o.keepOthers(s); err != nil {
			return nil
		}
	}
	switch step {
	case lifecycle.Schedule:
		return o.schedule(s)
	case lifecycle.Claim:
		return o.claim(s)
	case lifecycle.CheckMinCount:
		return o.muster(s)
	case lifecycle.Release:
		if o.w.broken != Orphans {
			l.drop(resource.ConsumerID(s.ID))
		}
		return lifecycle.Released{}
	case lifecycle.ReleaseLeftover:
		left, _ := s.NextLeftover()
		l.drop(resource.ConsumerID(left.Consumer))
		return lifecycle.LeftoverReleased{Consumer: left.Consumer}
	case lifecycle.MoveAllocations:
		done, err := o.hand(s.ID, s.Move.Consumer)
		if err != nil || !done {
			o.w.report.Happened["move refused"]++
			return lifecycle.Refused{Step: step, Reason: fmt.Sprint(err)}
		}
		return lifecycle.AllocationsMoved{}
	case lifecycle.RestoreAllocations:
		if _, err := o.hand(s.Move.From.Consumer, s.ID); err != nil {
			return lifecycle.StepFailed{Step: step, Reason: fmt.Sprint(err), Refused: true}
		}
		return lifecycle.AllocationsRestored{}
	}
	return nil
}

// keepOthers gives what the server holds to another of its consumers, if the record says that it is that one's.
func (o *fakeCompute) keepOthers(s lifecycle.Server) error {
	other := s.HeldFor(o.w.ledger.consumers[resource.ConsumerID(s.ID)].holds)
	if other == "" || len(o.w.ledger.consumers[resource.ConsumerID(other)].holds) > 0 {
		return nil
	}
	o.w.report.Happened["handed over again"]++
	_, err := o.hand(s.ID, other)
	return err
}

// hand gives all that one consumer holds to another.
func (o *fakeCompute) hand(from, to string) (done bool, err error) {
	giver, taker := o.w.ledger.consumers[resource.ConsumerID(from)], o.w.ledger.consumers[resource.ConsumerID(to)]
	if len(giver.holds) == 0 {
		return len(taker.holds) > 0, nil
	}
	claims := map[resource.ConsumerID]claim{
		resource.ConsumerID(from): {nil, giver.generation}, resource.ConsumerID(to): {giver.holds, taker.generation}}
	if err = o.w.ledger.put(claims); err != nil {
		err = o.handInRoom(claims, giver.holds)
	}
	return err == nil, err
}

// handInRoom makes room in the same step where what is held stands on what is reserved, and takes it away again, unless
// compute ends in between.
func (o *fakeCompute) handInRoom(claims map[resource.ConsumerID]claim, moves resource.Allocation) error {
	l := o.w.ledger
	type inventories = map[resource.Class]resource.Inventory
	wide, before := map[provider.ID]inventories{}, map[provider.ID]inventories{}
	generations := map[provider.ID]int{}
	for _, id := range slices.Sorted(maps.Keys(moves)) {
		next := maps.Clone(l.providers[id].Inventories)
		for class, amount := range moves[id] {
			if inv, has := next[class]; has {
				next[class] = inv.Widened(l.used(id)[class], amount)
			}
		}
		if !maps.Equal(next, l.providers[id].Inventories) {
			wide[id], before[id], generations[id] = next, l.providers[id].Inventories, l.providers[id].Generation
		}
	}
	if err := l.reshape(wide, generations, claims); err != nil {
		return err
	}
	o.w.report.Happened["room made"]++
	for _, id := range slices.Sorted(maps.Keys(wide)) {
		if o.w.chance(Answers, 4) {
			return nil // the agents take it away
		}
		if _, err := l.putInventories(id, l.providers[id].Generation, before[id]); err != nil {
			return err
		}
	}
	return nil
}

// claim writes the first choice as the server's allocation. It looks first: it may be there already.
func (o *fakeCompute) claim(s lifecycle.Server) lifecycle.Event {
	choice, c := s.Choices[0], resource.ConsumerID(s.ID)
	held := o.w.ledger.consumers[c]
	if len(held.holds) > 0 && held.holds.Equal(choice.Allocation) {
		return lifecycle.Claimed{Try: s.Try}
	}
	if err := o.w.ledger.put(map[resource.ConsumerID]claim{c: {choice.Allocation, held.generation}}); err != nil {
		if len(held.holds) > 0 {
			o.w.ledger.drop(c)
		}
		o.w.report.Happened["claim lost"]++
		return lifecycle.ClaimLost{Try: s.Try, Reason: fault.TextOf(err)}
	}
	return lifecycle.Claimed{Try: s.Try}
}

// enough is how many candidates are asked for.
const enough = 24

// schedule asks Placement and chooses.
func (o *fakeCompute) schedule(s lifecycle.Server) lifecycle.Event {
	ask := s.Ask
	ask.Limit = enough
	p := schedule.Input{Hosts: map[provider.ID]schedule.Host{}, Now: o.w.now, Silence: schedule.Silence,
		FailedHosts: s.FailedHosts, Cells: s.Topology,
		ExcludedHosts: s.ExcludedHosts()}
	if s.Move != nil {
		if p.Only = s.Move.To; p.Only != "" {
			ask.Groups = slices.Clone(ask.Groups)
			ask.Groups[0].InTree = o.w.byName[p.Only].root
		}
	}
	for c := range candidate.Find(o.w.ledger.see(), ask, candidate.Options{BreadthFirst: true}) {
		p.Candidates = append(p.Candidates, schedule.Candidate{Root: c.Root, Allocation: c.Allocation(),
			Mappings: c.Mappings()})
		m := o.w.byRoot[c.Root]
		if _, known := p.Hosts[c.Root]; !known && m.host.row.known {
			p.Hosts[c.Root] = o.host(m)
		}
		if m.host.row.dead {
			p.ExcludedHosts[m.name] = "an operator says that it is dead"
		}
		if o.leaving[s.ID] > 0 && slices.Contains(slices.Collect(maps.Values(m.host.row.removals)), s.ID) {
			p.ExcludedHosts[m.name] = "a guest that the server left there has yet to be destroyed"
		}
	}
	choices, refusals := schedule.Choose(p, s.Requests, seed(s))
	if len(choices) == 0 {
		return lifecycle.NoValidHost{Candidates: len(p.Candidates), Reason: schedule.Summarise(refusals),
			Again: len(p.Candidates) > 0}
	}
	return lifecycle.Chosen{Choices: choices, Candidates: len(p.Candidates)}
}

func seed(s lifecycle.Server) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d", s.ID, s.Round)
	return h.Sum64()
}

// muster looks how the other servers of the request fare.
func (o *fakeCompute) muster(s lifecycle.Server) lifecycle.Event {
	placed, trying, together := 0, 0, false
	for _, id := range o.groups[group(s.ID)] {
		other := o.servers[id]
		switch other.State {
		case lifecycle.Preparing, lifecycle.Scheduling, lifecycle.Claiming, lifecycle.Rescheduling:
			trying++
		case lifecycle.AwaitingMinCount:
			placed++
		}
		together = together || other.MinCountReached
	}
	switch {
	case placed >= s.MinCount || together:
		return lifecycle.MinCountReached{}
	case placed+trying < s.MinCount:
		return lifecycle.MinCountFailed{Reason: "too few have a place"}
	}
	return nil
}

func group(id string) string {
	g, _, _ := strings.Cut(id, ".")
	return g
}

package conductor

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"regexp"
	"slices"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// perform does one step. An error means that it is to be done again later.
func (c *Conductor) perform(ctx context.Context, s lifecycle.Server, step lifecycle.Step) (lifecycle.Event, error) {
	if step != lifecycle.Schedule && step != lifecycle.CheckMinCount {
		if err := c.mayWrite(ctx, s); err != nil {
			return nil, err
		}
	}
	ctx, stop, err := c.leased(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	event, err := c.step(ctx, s, step)
	if step != lifecycle.CheckMinCount { // it does not call Placement
		c.suspect(err)
	}
	return event, err
}

func (c *Conductor) step(ctx context.Context, s lifecycle.Server, step lifecycle.Step) (lifecycle.Event, error) {
	if step == lifecycle.Claim || step == lifecycle.Release {
		if err := c.keepOthers(ctx, s); err != nil {
			return nil, err
		}
	}
	switch step {
	case lifecycle.Schedule:
		return c.schedule(ctx, s)
	case lifecycle.Claim:
		return c.claim(ctx, s)
	case lifecycle.CheckMinCount:
		return c.muster(ctx, s)
	case lifecycle.MoveAllocations:
		return c.rekey(ctx, s)
	case lifecycle.RestoreAllocations:
		return c.restore(ctx, s)
	case lifecycle.ReleaseLeftover:
		return c.drop(ctx, s)
	case lifecycle.Release:
		return c.release(ctx, s)
	}
	return nil, fault.New(fault.Internal, "conductor.perform", "nobody knows how to %q", step)
}

// leased returns a context for calls of other services, which ends with the lease. The fault is Unavailable if the
// lease has ended.
func (c *Conductor) leased(ctx context.Context) (bound context.Context, stop context.CancelFunc, err error) {
	if c.Lease == nil {
		return ctx, func() {}, nil
	}
	if err := c.Lease.Check(); err != nil {
		return nil, nil, err
	}
	bound, stop = c.Lease.Bind(ctx)
	return bound, stop, nil
}

// schedule asks Placement and chooses.
func (c *Conductor) schedule(ctx context.Context, s lifecycle.Server) (lifecycle.Event, error) {
	ask, err := c.ask(ctx, s)
	if err != nil {
		return nil, err
	}
	got, err := c.placement.Candidates(ctx, ask)
	switch fault.KindOf(err) {
	case "":
	case fault.Unavailable:
		return nil, err
	case fault.Invalid, fault.NotFound:
		return c.notAccepted(fault.TextOf(err))
	default:
		return lifecycle.Refused{Step: lifecycle.Schedule, Reason: "Placement gives no candidates: " + fault.TextOf(err)}, nil
	}
	if len(got.List) == 0 {
		reason := got.Reason
		if reason == "" {
			reason = fmt.Sprintf("Placement knows no host that has %s left together", ask.Total())
		}
		return lifecycle.NoValidHost{Reason: reason}, nil
	}
	picture, err := c.picture(ctx, got)
	if err != nil {
		return nil, err
	}
	picture.FailedHosts, picture.Cells, picture.Pack = s.FailedHosts, s.Topology, c.Pack
	if picture.ExcludedHosts, err = c.barred(ctx, s); err != nil {
		return nil, err
	}
	if s.Move != nil {
		picture.Only = s.Move.To
	}
	choices, refusals, err := c.choose(ctx, picture, s)
	if err != nil {
		return nil, err
	}
	why, falls := schedule.Summarise(refusals), schedule.FilterFailures(refusals)
	if len(choices) == 0 {
		// The reports are younger than the candidates: a device may be taken now, and another, not offered then, be free.
		return lifecycle.NoValidHost{Candidates: len(got.List), Reason: why, Again: true, FilterFailures: falls}, nil
	}
	return lifecycle.Chosen{Choices: choices, Candidates: len(got.List), Refused: why, FilterFailures: falls}, nil
}

// choose judges the candidates. It refuses hosts on which allocations are missing in Placement, because what Placement
// offers there may be in use. It audits the host of the best candidate if the last audit is not fresh.
func (c *Conductor) choose(ctx context.Context, picture schedule.Input, s lifecycle.Server) (
	[]schedule.Choice, []schedule.Refusal, error) {
	picture.Lacking = map[string]bool{}
	for _, host := range picture.Hosts {
		if missing, _ := c.missing(host); missing {
			picture.Lacking[host.Name] = true
		}
	}
	for range mostAudited {
		choices, refusals := schedule.Choose(picture, s.Requests, seed(s))
		if len(choices) == 0 {
			return nil, refusals, nil
		}
		host := picture.Hosts[choices[0].Root]
		if _, fresh := c.missing(host); fresh {
			return choices, refusals, nil
		}
		missing, err := c.auditRoot(ctx, host.Name, host.Provider)
		if err != nil {
			return nil, nil, err
		}
		if !missing {
			return choices, refusals, nil
		}
		picture.Lacking[host.Name] = true
	}
	return nil, nil, fault.New(fault.Unavailable, "conductor.choose",
		"Placement lacks allocations of servers on each of %d hosts; the next try audits the next hosts", mostAudited)
}

// ask is the question of a server. Of a move to one host only that host is asked about.
func (c *Conductor) ask(ctx context.Context, s lifecycle.Server) (resource.Ask, error) {
	ask := s.Ask
	ask.Limit = candidates
	if s.Move == nil || s.Move.To == "" {
		return ask, nil
	}
	host, err := c.store.Host(ctx, s.Move.To)
	if fault.Is(err, fault.NotFound) {
		return ask, nil // nothing will fit
	}
	if err != nil {
		return ask, err
	}
	ask.Groups = slices.Clone(ask.Groups)
	for i, g := range ask.Groups {
		if g.Suffix == "" {
			ask.Groups[i].InTree = host.Provider
		}
	}
	return ask, nil
}

// barred are the hosts that will not do for a server, and why.
func (c *Conductor) barred(ctx context.Context, s lifecycle.Server) (map[string]string, error) {
	dead, err := c.store.Dead(ctx)
	if err != nil {
		return nil, err
	}
	out := s.ExcludedHosts()
	for _, host := range dead {
		out[host] = "an operator says that it is dead"
	}
	leaving, err := c.store.RemovalHosts(ctx, s.ID)
	if err != nil {
		return nil, err
	}
	for _, host := range leaving {
		out[host] = "a guest that the server left there has yet to be destroyed"
	}
	return out, nil
}

// What Placement says of names that it does not know: its own API's sentences.
var unknownNames = regexp.MustCompile(`No such (?:resource class|trait\(s\)):? (.+?)\.?$`)

// notAccepted is what follows from a question that Placement does not accept. A class or a trait becomes known when a host reports it, so
// shortly after the start the question is asked again, until the first agent has reported.
func (c *Conductor) notAccepted(text string) (lifecycle.Event, error) {
	names := unknownNames.FindStringSubmatch(text)
	if names == nil {
		return lifecycle.NoValidHost{Reason: "Placement does not accept the question: " + text}, nil
	}
	reason := "no host has ever reported " + names[1]
	if c.now().Sub(c.started) < firstReports {
		if !c.presence.anyReported() {
			return nil, fault.New(fault.Unavailable, "conductor.schedule", "%s, and none has reported since the start", reason)
		}
	}
	return lifecycle.NoValidHost{Reason: reason}, nil
}

// seed is the chance of one round of one server: another for each server, and the same when the round is repeated.
func seed(s lifecycle.Server) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d", s.ID, s.Round)
	return h.Sum64()
}

// picture puts the candidates together with what the agents have reported.
func (c *Conductor) picture(ctx context.Context, got placement.Candidates) (schedule.Input, error) {
	roots := map[provider.ID]bool{}
	for _, candidate := range got.List {
		for id := range candidate.Allocation {
			roots[rootOf(got, id)] = true
		}
	}
	hosts, err := c.store.Reports(ctx, slices.Sorted(maps.Keys(roots)))
	if err != nil {
		return schedule.Input{}, err
	}
	for id, host := range hosts {
		host.Seen = c.now().Add(-c.presence.sinceReport(host.Name)) // by the clock that nobody sets
		host.Load = load(got.Summaries[id])
		hosts[id] = host
	}
	p := schedule.Input{Hosts: hosts, Now: c.now(), Silence: schedule.Silence}
	for _, candidate := range got.List {
		p.Candidates = append(p.Candidates, schedule.Candidate{
			Root: hostOf(got, candidate, hosts), Allocation: candidate.Allocation, Mappings: candidate.Mappings})
	}
	return p, nil
}

func rootOf(got placement.Candidates, id provider.ID) provider.ID {
	if summary, ok := got.Summaries[id]; ok && summary.Root != "" {
		return summary.Root
	}
	return id
}

// hostOf is the root of the candidate's host. A candidate with sharing providers touches several trees; the host is
// the one that has an agent.
func hostOf(got placement.Candidates, candidate placement.Candidate, hosts map[provider.ID]schedule.Host) provider.ID {
	var first provider.ID
	for _, id := range slices.Sorted(maps.Keys(candidate.Allocation)) {
		root := rootOf(got, id)
		if _, ok := hosts[root]; ok {
			return root
		}
		if first == "" {
			first = root
		}
	}
	return first
}

// load is the largest share of a class that is taken on a provider, 0 to 1.
func load(s placement.Summary) float64 {
	most := 0.0
	for _, of := range s.Resources {
		if of.Capacity > 0 {
			most = max(most, float64(of.Used)/float64(of.Capacity))
		}
	}
	return min(most, 1)
}

// claim writes the first choice as the server's allocation. It looks first: after a crash, or an answer that was lost, the
// claim may be there already; and what else the server holds is from an earlier claim of ours and is replaced.
func (c *Conductor) claim(ctx context.Context, s lifecycle.Server) (lifecycle.Event, error) {
	choice, consumer := s.Choices[0], resource.ConsumerID(s.ID)
	var held placement.Held
	var err error
	for attempt := range claimTries {
		if attempt > 0 {
			c.pause(ctx, attempt)
		}
		if held, err = c.placement.Allocation(ctx, consumer); err != nil {
			return claimFailed(s, err)
		}
		if len(held.Allocation) > 0 && held.Allocation.Equal(choice.Allocation) {
			return lifecycle.Claimed{Try: s.Try}, nil
		}
		var missing bool
		if missing, err = c.auditRoot(ctx, choice.Host, choice.Root); err != nil {
			return claimFailed(s, err)
		}
		if missing {
			err = fault.New(fault.Conflict, "conductor.claim", "on host %s, %s", choice.Host, schedule.LacksAllocations)
			break
		}
		err = c.placement.PutAllocation(ctx, consumer, placement.Held{
			Allocation: choice.Allocation, Mappings: choice.Mappings, Generation: held.Generation,
			Project: s.Project, User: s.User, ConsumerType: "INSTANCE",
		})
		if err == nil {
			return lifecycle.Claimed{Try: s.Try}, nil
		}
		if fault.CodeOf(err) != placement.CodeConcurrentUpdate {
			break
		}
	}
	if len(held.Allocation) > 0 { // a lost claim promises that nothing is held
		if err := c.placement.DeleteAllocation(ctx, consumer); err != nil {
			return nil, err
		}
	}
	return claimFailed(s, err)
}

func claimFailed(s lifecycle.Server, err error) (lifecycle.Event, error) {
	switch fault.KindOf(err) {
	case fault.Unavailable:
		return nil, err
	case fault.Conflict, fault.NoCapacity, fault.Invalid, fault.NotFound: // taken, or the provider is no more
		return lifecycle.ClaimLost{Try: s.Try, Reason: fault.TextOf(err)}, nil
	}
	return lifecycle.Refused{Step: lifecycle.Claim, Reason: "Placement does not take the claim: " + fault.TextOf(err)}, nil
}

// release gives back all that the server holds. Whatever is in the way, it is tried again: nothing may be left behind.
func (c *Conductor) release(ctx context.Context, s lifecycle.Server) (lifecycle.Event, error) {
	if err := c.placement.DeleteAllocation(ctx, resource.ConsumerID(s.ID)); err != nil {
		return nil, err
	}
	return lifecycle.Released{}, nil
}

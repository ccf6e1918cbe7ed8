package conductor

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"regexp"
	"slices"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// perform performs one step and returns its event. If it returns an error the step is retried later.
func (c *Conductor) perform(ctx context.Context, s lifecycle.Server, step lifecycle.Step) (lifecycle.Event, error) {
	switch step {
	case lifecycle.Prepare, lifecycle.Schedule, lifecycle.CheckMinCount:
	default:
		if err := c.checkMayWrite(ctx, s); err != nil {
			return nil, err
		}
	}
	ctx, stop, err := c.leased(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	event, err := c.step(ctx, s, step)
	if step != lifecycle.Prepare && step != lifecycle.CheckMinCount { // these do not call Placement
		c.noteUnavailable(err)
	}
	return event, err
}

func (c *Conductor) step(ctx context.Context, s lifecycle.Server, step lifecycle.Step) (lifecycle.Event, error) {
	if step == lifecycle.Claim || step == lifecycle.Release {
		if err := c.protectOtherGuest(ctx, s); err != nil {
			return nil, err
		}
	}
	switch step {
	case lifecycle.Prepare:
		return c.prepare(s), nil
	case lifecycle.Schedule:
		return c.schedule(ctx, s)
	case lifecycle.Claim:
		return c.claim(ctx, s)
	case lifecycle.CheckMinCount:
		return c.checkMinCount(ctx, s)
	case lifecycle.MoveAllocations:
		return c.moveAllocations(ctx, s)
	case lifecycle.RestoreAllocations:
		return c.restoreAllocations(ctx, s)
	case lifecycle.ReleaseLeftover:
		return c.releaseLeftover(ctx, s)
	case lifecycle.Release:
		return c.release(ctx, s)
	}
	return nil, fault.New(fault.Internal, "conductor.perform", "unknown step %q", step)
}

// leased returns a context for calls of other services, which ends with the lease. It returns fault.Unavailable if the
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

// prepare builds the request to Placement. The Compute API has accepted the flavor and the image, but the configuration
// of the aliases may have changed since.
func (c *Conductor) prepare(s lifecycle.Server) lifecycle.Event {
	prepared, err := c.build(s)
	if err != nil {
		return lifecycle.Refused{Step: lifecycle.Prepare, Reason: fault.TextOf(err)}
	}
	return prepared
}

// buildAsk builds what a server requests from its flavor and its image. Each call returns new request ids.
func (c *Conductor) buildAsk(s lifecycle.Server) (p lifecycle.Prepared, err error) {
	options := flavor.Options{PCIInPlacement: c.PCIInPlacement}
	p.Ask, p.Requests, err = flavor.Ask(s.Flavor, s.SourceImage(), c.Aliases, options, c.newID)
	if err == nil {
		p.Topology, err = flavor.Topology(s.Flavor, s.SourceImage())
	}
	return p, err
}

// schedule requests candidates from Placement and chooses among them. Usually it requests only as many as it can return
// as choices, because the cost of a candidate is that of describing its host. If the filters refuse all of them, it
// requests maxCandidates.
func (c *Conductor) schedule(ctx context.Context, s lifecycle.Server) (lifecycle.Event, error) {
	request, err := c.request(ctx, s)
	if err != nil {
		return nil, err
	}
	if s.Move == nil && devicesInPlacement(s) {
		request.Limit = schedule.MaxChoices
		event, err := c.scheduleAmong(ctx, s, request)
		if none, is := event.(lifecycle.NoValidHost); err != nil || !is || none.Candidates < request.Limit {
			return event, err
		}
		request.Limit = maxCandidates
	}
	return c.scheduleAmong(ctx, s, request)
}

// devicesInPlacement reports whether Placement counts all devices that a server requests. If it does not, most of its
// candidates may lack them.
func devicesInPlacement(s lifecycle.Server) bool {
	for _, r := range s.Requests {
		if !slices.ContainsFunc(s.Ask.Groups, func(g resource.Group) bool { return g.Suffix == r.GroupSuffix(0) }) {
			return false
		}
	}
	return true
}

// scheduleAmong chooses among the candidates of one query.
func (c *Conductor) scheduleAmong(ctx context.Context, s lifecycle.Server, request resource.Ask) (
	lifecycle.Event, error) {
	got, err := c.placement.Candidates(ctx, request)
	switch fault.KindOf(err) {
	case "":
	case fault.Unavailable:
		return nil, err
	case fault.Invalid, fault.NotFound:
		return c.onRequestRejected(fault.TextOf(err))
	default:
		return lifecycle.Refused{Step: lifecycle.Schedule,
			Reason: "Placement returns no candidates: " + fault.TextOf(err)}, nil
	}
	if len(got.List) == 0 {
		reason := got.Reason
		if reason == "" {
			reason = fmt.Sprintf("Placement has no host with all of %s left", request.Total())
		}
		return lifecycle.NoValidHost{Reason: reason}, nil
	}
	input, err := c.scheduleInput(ctx, got)
	if err != nil {
		return nil, err
	}
	input.FailedHosts, input.Cells, input.Pack = s.FailedHosts, s.Topology, c.Pack
	if input.ExcludedHosts, err = c.excludedHosts(ctx, s); err != nil {
		return nil, err
	}
	if s.Move != nil {
		input.Only = s.Move.To
	}
	choices, refusals, err := c.choose(ctx, input, s)
	if err != nil {
		return nil, err
	}
	why, failures := schedule.Summarise(refusals), schedule.FilterFailures(refusals)
	if len(choices) == 0 {
		// The reports are newer than the candidates: a candidate's device may be taken by now, and another one free.
		return lifecycle.NoValidHost{Candidates: len(got.List), Reason: why, Again: true, FilterFailures: failures}, nil
	}
	return lifecycle.Chosen{Choices: choices, Candidates: len(got.List), Refused: why, FilterFailures: failures}, nil
}

// choose filters and orders the candidates. It refuses hosts on which allocations are missing in Placement, because
// what Placement offers there may be in use. It audits the host of the best candidate if the last audit is not fresh.
func (c *Conductor) choose(ctx context.Context, input schedule.Input, s lifecycle.Server) (
	[]schedule.Choice, []schedule.Refusal, error) {
	input.Lacking = map[string]bool{}
	for _, host := range input.Hosts {
		if missing, _ := c.missing(host); missing {
			input.Lacking[host.Name] = true
		}
	}
	for range maxAudited {
		choices, refusals := schedule.Choose(input, s.Requests, seed(s))
		if len(choices) == 0 {
			return nil, refusals, nil
		}
		host := input.Hosts[choices[0].Root]
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
		input.Lacking[host.Name] = true
	}
	return nil, nil, fault.New(fault.Unavailable, "conductor.choose",
		"Placement lacks allocations of servers on each of %d hosts; the next try audits the next hosts", maxAudited)
}

// request returns the query for the candidates of a server. For a move to a given host it restricts the query to the
// provider tree of that host.
func (c *Conductor) request(ctx context.Context, s lifecycle.Server) (resource.Ask, error) {
	ask := s.Ask
	ask.Limit = maxCandidates
	if s.Move == nil || s.Move.To == "" {
		return ask, nil
	}
	host, err := c.store.Host(ctx, s.Move.To)
	if fault.Is(err, fault.NotFound) {
		return ask, nil // the filters refuse every host but this one, so no candidate remains
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

// excludedHosts returns the hosts that must not be chosen for a server, with the reason.
func (c *Conductor) excludedHosts(ctx context.Context, s lifecycle.Server) (map[string]string, error) {
	dead, err := c.store.Dead(ctx)
	if err != nil {
		return nil, err
	}
	out := s.ExcludedHosts()
	for _, host := range dead {
		out[host] = "an operator has declared it dead"
	}
	leaving, err := c.store.RemovalHosts(ctx, s.ID)
	if err != nil {
		return nil, err
	}
	for _, host := range leaving {
		out[host] = "a previous guest of the server is not destroyed there yet"
	}
	return out, nil
}

// unknownNames matches the sentences of the Placement API for classes and traits that do not exist.
var unknownNames = regexp.MustCompile(`No such (?:resource class|trait\(s\)):? (.+?)\.?$`)

// onRequestRejected returns the event for a query that Placement rejects. An agent creates the classes and traits of
// its host. So shortly after the start it returns fault.Unavailable, and the query is retried, until the first agent
// has reported.
func (c *Conductor) onRequestRejected(text string) (lifecycle.Event, error) {
	names := unknownNames.FindStringSubmatch(text)
	if names == nil {
		return lifecycle.NoValidHost{Reason: "Placement rejects the query: " + text}, nil
	}
	reason := "no host has ever reported " + names[1]
	if c.now().Sub(c.started) < firstReports {
		if !c.presence.anyReported() {
			return nil, fault.New(fault.Unavailable, "conductor.schedule", "%s, and none has reported since the start", reason)
		}
	}
	return lifecycle.NoValidHost{Reason: reason}, nil
}

// seed returns the random seed of a scheduling round: it differs between servers and rounds, and is the same when a
// round is repeated.
func seed(s lifecycle.Server) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d", s.ID, s.Round)
	return h.Sum64()
}

// scheduleInput joins the candidates with the reports of their hosts.
func (c *Conductor) scheduleInput(ctx context.Context, got placement.Candidates) (schedule.Input, error) {
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
		host.Seen = c.now().Add(-c.presence.sinceReport(host.Name)) // measured with the monotonic clock
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

// hostOf returns the root provider of the candidate's host. A candidate with sharing providers has several trees; the
// host is the tree that has an agent.
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

// load returns the largest used share of any resource class of a provider, from 0 to 1.
func load(s placement.Summary) float64 {
	most := 0.0
	for _, of := range s.Resources {
		if of.Capacity > 0 {
			most = max(most, float64(of.Used)/float64(of.Capacity))
		}
	}
	return min(most, 1)
}

// claim writes the first choice as the server's allocation. It reads the allocation first: after a crash or a lost
// answer the claim may exist already. Any other allocation of the server comes from an earlier claim and is replaced.
func (c *Conductor) claim(ctx context.Context, s lifecycle.Server) (lifecycle.Event, error) {
	choice, consumer := s.Choices[0], resource.ConsumerID(s.ID)
	var held placement.ConsumerAllocation
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
		err = c.placement.PutAllocation(ctx, consumer, placement.ConsumerAllocation{
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
	if len(held.Allocation) > 0 { // lifecycle.ClaimLost states that the server has no allocation
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
	case fault.Conflict, fault.NoCapacity, fault.Invalid, fault.NotFound: // taken, or the provider has been deleted
		return lifecycle.ClaimLost{Try: s.Try, Reason: fault.TextOf(err)}, nil
	}
	return lifecycle.Refused{Step: lifecycle.Claim, Reason: "Placement refuses the claim: " + fault.TextOf(err)}, nil
}

// release deletes the server's allocation. Every error is returned, so that the step is retried until it succeeds.
func (c *Conductor) release(ctx context.Context, s lifecycle.Server) (lifecycle.Event, error) {
	if err := c.placement.DeleteAllocation(ctx, resource.ConsumerID(s.ID)); err != nil {
		return nil, err
	}
	return lifecycle.Released{}, nil
}

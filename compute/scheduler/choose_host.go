package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/portrequest"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// MaxAudited is how many hosts one round of scheduling audits before it is retried.
const MaxAudited = 16

// Choose chooses hosts for a server with these ports among the candidates of Placement. It returns lifecycle.Chosen,
// NoValidHost or Refused. Usually it requests only as many candidates as it can return as choices, because the cost of
// a candidate is that of describing its host. If the filters refuse all of them, it requests MaxCandidates. Queries
// that take long are bounded for each project.
func (c Scheduler) Choose(ctx context.Context, s lifecycle.Server, ports Ports) (lifecycle.Event, error) {
	c.placement = c.searches.of(c.placement, s)
	return c.choose(ctx, s, ports)
}

// choose is Choose without the bound of queries.
func (c Scheduler) choose(ctx context.Context, s lifecycle.Server, ports Ports) (lifecycle.Event, error) {
	s, err := c.withGroupAndHints(ctx, s)
	if err != nil {
		return nil, err
	}
	request, devices, err := c.request(ctx, s, ports.wants)
	if fault.Is(err, fault.Invalid) || fault.Is(err, fault.Conflict) {
		return lifecycle.Refused{Step: lifecycle.Schedule, Reason: fault.TextOf(err)}, nil
	}
	if err != nil {
		return nil, err
	}
	s.Requests = slices.DeleteFunc(slices.Clone(s.Requests), func(r pci.Request) bool { return r.Port != nil })
	s.Requests = append(s.Requests, devices...)
	event, err := c.scheduleRequest(ctx, s, request)
	switch e := event.(type) {
	case lifecycle.Chosen:
		e.Ports, e.PortDevices = ports.List, devices
		event = e
	case lifecycle.NoValidHost:
		if only := s.Hints().OnlyHost(); only != "" && s.OnlyHost() == only { // the query was about that host
			e.Reason = fmt.Sprintf("the hint same_host permits only the host of %s: %s", strings.Join(s.SameHost, ", "),
				e.Reason)
		} else if group := s.ServerGroup(); group.OnlyHost() != "" {
			e.Reason = fmt.Sprintf("server group %s has the policy affinity, so only the host of its members is permitted: %s",
				group.ID, e.Reason)
		}
		event = e
	}
	return event, err
}

// withGroupAndHints returns a server with what its group and its hints require of its host. Servers of other projects,
// which its user may not see, count as missing.
func (c Scheduler) withGroupAndHints(ctx context.Context, s lifecycle.Server) (lifecycle.Server, error) {
	group, err := c.store.GroupOf(ctx, s)
	if err != nil || len(s.SameHost)+len(s.DifferentHost) == 0 {
		return s.WithGroup(group), err
	}
	hints := &schedule.HostHints{Same: s.SameHost, Different: s.DifferentHost, Hosts: map[string][]string{}}
	for _, id := range slices.Concat(s.SameHost, s.DifferentHost) {
		other, err := c.store.Read(ctx, id)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return s, err
		}
		if err == nil && other.Project == s.Project {
			hints.Hosts[id] = other.UsedHosts()
		}
	}
	return s.WithGroup(group).WithHints(hints), nil
}

// scheduleRequest schedules a server with the request to Placement.
func (c Scheduler) scheduleRequest(ctx context.Context, s lifecycle.Server, request resource.Ask) (lifecycle.Event,
	error) {
	if !planned(s, request) && s.Move == nil && !s.ServerGroup().RatesHosts() && devicesInPlacement(s.Requests, request) {
		few := request
		few.Limit = schedule.MaxChoices
		if event, cut, err := c.scheduleAmong(ctx, s, few); err != nil || !cut {
			return event, err
		}
	}
	return c.searchHosts(ctx, s, request)
}

// searchHosts plans a server on the hosts, if it has cells or devices, or chooses among the candidates of one query. If
// the filters refuse all of these, and there may be more, it plans the server on the hosts too.
func (c Scheduler) searchHosts(ctx context.Context, s lifecycle.Server, request resource.Ask) (lifecycle.Event, error) {
	if planned(s, request) {
		return c.planServer(ctx, s, request)
	}
	event, cut, err := c.scheduleAmong(ctx, s, request)
	if err == nil && cut && len(withoutAliases(request, s.Requests).Groups) > 0 {
		return c.planServer(ctx, s, request)
	}
	return event, err
}

// scheduleAmong chooses among the candidates of one query. cut is set if the filters refuse all of them, and there may
// be more.
func (c Scheduler) scheduleAmong(ctx context.Context, s lifecycle.Server, request resource.Ask) (
	event lifecycle.Event, cut bool, err error) {
	if request, err = c.onOnlyHost(ctx, s, request); err != nil {
		return nil, false, err
	}
	got, event, err := c.candidates(ctx, request)
	if err != nil || event != nil {
		return event, false, err
	}
	if len(got.List) == 0 {
		return lifecycle.NoValidHost{Reason: whyEmpty(got, request), Search: searchOf(got.Why)}, false, nil
	}
	input, err := c.Input(ctx, got)
	if err != nil {
		return nil, false, err
	}
	if err := c.addServer(ctx, &input, s); err != nil {
		return nil, false, err
	}
	choices, refusals, err := c.filter(ctx, input, s)
	if err != nil {
		return nil, false, err
	}
	why, failures, search := schedule.Summarise(refusals), schedule.FilterFailures(refusals), input.SearchOf(refusals)
	if len(choices) == 0 {
		// The reports are newer than the candidates: a candidate's device may be taken by now, and another one free.
		return lifecycle.NoValidHost{Candidates: len(got.List), Reason: why, Again: true, FilterFailures: failures,
			Search: search}, isCut(got, request), nil
	}
	return lifecycle.Chosen{Choices: choices, Candidates: len(got.List), Refused: why, FilterFailures: failures,
		Search: search}, false, nil
}

// isCut reports whether there may be more candidates for a request than those of the answer: it has as many as the
// request or Placement permits, or the search has ended before it was complete. OpenStack's Placement does not report
// its limit, [placement] max_allocation_candidates.
func isCut(got placement.Candidates, request resource.Ask) bool {
	n := len(got.List)
	return got.Undecided != "" || request.Limit > 0 && n >= request.Limit || got.Limit > 0 && n >= got.Limit
}

// candidates returns the candidates for a request. Alternatives that Placement does not have are left out. If the query
// cannot have an answer, it returns the event of the step.
func (c Scheduler) candidates(ctx context.Context, request resource.Ask) (placement.Candidates, lifecycle.Event,
	error) {
	got, err := c.placement.Candidates(ctx, request)
	switch fault.KindOf(err) {
	case "":
		c.loads.note(got, c.options.Now())
		return got, nil, nil
	case fault.Unavailable, fault.Internal: // an answer with status 500 may be another one later
		return got, nil, err
	case fault.Invalid, fault.NotFound:
		if known, changed := portrequest.WithoutUnknown(request, unknownTraits(fault.TextOf(err))); changed {
			return c.candidates(ctx, known)
		}
		event, err := c.onRequestRejected(fault.TextOf(err))
		return got, event, err
	}
	return got, lifecycle.Refused{Step: lifecycle.Schedule,
		Reason: "Placement returns no candidates: " + fault.TextOf(err)}, nil
}

// whyEmpty returns why an answer has no candidates.
func whyEmpty(got placement.Candidates, request resource.Ask) string {
	return cmp.Or(got.Reason, fmt.Sprintf("Placement has no host with all of %s left", request.Total()))
}

// searchOf returns the explanation of an answer without candidates, as it is recorded. It is empty without one.
func searchOf(e *placement.Explanation) (out schedule.Search) {
	if e == nil {
		return out
	}
	for _, row := range e.Funnel {
		out.Funnel = append(out.Funnel, schedule.FunnelRow(row))
	}
	for _, m := range e.Nearest {
		miss := schedule.NearestMiss{Host: m.Host}
		for _, d := range m.Deficits {
			miss.Deficits = append(miss.Deficits, schedule.Deficit{Class: d.Class, Cause: d.Cause, Asks: d.Asks,
				Free: d.Free, Of: d.Of, Text: d.Text})
		}
		out.Nearest = append(out.Nearest, miss)
	}
	return out
}

// addServer adds to the input what concerns one server: its cells, and the hosts that it must not use.
func (c Scheduler) addServer(ctx context.Context, input *schedule.Input, s lifecycle.Server) (err error) {
	input.FailedHosts, input.Cells, input.Pack = s.FailedHosts, numa.WithChoices(s.Topology, nil), c.options.Pack
	if input.ExcludedHosts, err = c.excludedHosts(ctx, s, input.Hosts); err != nil {
		return err
	}
	if err := c.excludeWithoutDisk(ctx, s, *input); err != nil {
		return err
	}
	input.Group, input.Hints, input.Only = s.ServerGroup(), s.Hints(), s.Target
	if s.Move != nil {
		input.Only = s.Move.To
	}
	if input.Demand, err = c.demandOf(ctx, s); err != nil {
		return err
	}
	input.Lacking = map[string]bool{}
	for _, host := range input.Hosts {
		if missing, _ := c.options.Audits.Missing(host); missing {
			input.Lacking[host.Name] = true
		}
	}
	return nil
}

// demandOf returns what a server requires of the aggregates of its host.
func (c Scheduler) demandOf(ctx context.Context, s lifecycle.Server) (schedule.AggregateDemand, error) {
	of, err := c.store.HostAggregates(ctx)
	return schedule.AggregateDemand{Aggregates: schedule.Aggregates{OfHost: of, DefaultZone: c.options.DefaultZone},
		Zone: s.Zone, Project: s.Project, ExtraSpecs: s.Flavor.ExtraSpecs}, err
}

// filter filters and orders the candidates. It refuses hosts on which allocations are missing in Placement, because
// what Placement offers there may be in use. It audits the host of the best candidate if the last audit is not fresh.
func (c Scheduler) filter(ctx context.Context, input schedule.Input, s lifecycle.Server) (
	[]schedule.Choice, []schedule.Refusal, error) {
	for range MaxAudited {
		choices, refusals := schedule.Choose(input, s.Requests, seed(s))
		if len(choices) == 0 {
			return nil, refusals, nil
		}
		host := input.Hosts[choices[0].Root]
		if _, fresh := c.options.Audits.Missing(host); fresh {
			return choices, refusals, nil
		}
		missing, err := c.options.Audits.AuditRoot(ctx, host.Name, host.Provider)
		if err != nil {
			return nil, nil, err
		}
		if !missing {
			return choices, refusals, nil
		}
		input.Lacking[host.Name] = true
	}
	return nil, nil, fault.New(fault.Unavailable,
		"Placement lacks allocations of servers on each of %d hosts; the next try audits the next hosts", MaxAudited)
}

// excludedHosts returns which of the hosts must not be chosen for a server, with the reason.
func (c Scheduler) excludedHosts(ctx context.Context, s lifecycle.Server, hosts map[provider.ID]schedule.Host) (
	map[string]string, error) {
	dead, err := c.store.Dead(ctx)
	if err != nil {
		return nil, err
	}
	disabled, err := c.store.DisabledHosts(ctx)
	if err != nil {
		return nil, err
	}
	out := s.ExcludedHosts()
	for host, reason := range disabled {
		if out[host] == "" {
			out[host] = "an operator has disabled it" + prefixed(": ", reason)
		}
	}
	for _, host := range dead {
		out[host] = "an operator has declared it dead"
	}
	for _, h := range hosts {
		if late := c.options.Agents.NotFollowing(h.Name); late != "" && out[h.Name] == "" {
			out[h.Name] = late
		}
	}
	if s.Try == 0 { // it was never placed, so nothing of it is to be destroyed
		return out, nil
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

// prefixed returns text after a prefix, or nothing for an empty text.
func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// seed returns the random seed of a scheduling round: it differs between servers and rounds, and is the same when a
// round is repeated.
func seed(s lifecycle.Server) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d", s.ID, s.Round)
	return h.Sum64()
}

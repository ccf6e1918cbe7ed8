// Package audit compares the allocations that the servers on a host must have, by compute's records, with those that
// Placement has. It keeps the last audit of each host, adds missing allocations, and removes foreign ones.
//
// The files, from the bottom to the top: audit.go, which compares; reported.go; queue_and_results.go; foreign.go and
// heal.go.
package audit

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/allocations"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Store is what audits need of the database; *store.Store implements it. Methods return fault.NotFound for a server
// that does not exist.
type Store interface {
	Read(ctx context.Context, id string) (lifecycle.Server, error)
	OnHost(ctx context.Context, host string) ([]lifecycle.Server, error)
	ServerOfConsumer(ctx context.Context, consumer string) (string, error)
	Host(ctx context.Context, name string) (schedule.Host, error)
	Hosts(ctx context.Context) ([]schedule.Host, error)
}

// Placement has the requests to Placement that an audit needs; *placement.Client implements it.
type Placement interface {
	Allocation(ctx context.Context, consumer resource.ConsumerID) (placement.ConsumerAllocation, error)
	TreeAllocations(ctx context.Context, root provider.ID, whole bool) (placement.TreeAllocations, error)
	TreeState(ctx context.Context, root provider.ID) (string, error)
	ProviderAllocations(ctx context.Context, id provider.ID) (map[resource.ConsumerID]resource.Amounts, error)
}

// Agents are the agents of hosts; *presence.Agents implements it.
type Agents interface {
	SinceReport(host string) time.Duration
	SilentAfter() time.Duration
}

// Options are what an Auditor needs besides the records and Placement.
type Options struct {
	Log    *slog.Logger
	Now    func() time.Time
	Times  Times
	Agents Agents
	Writer allocations.Writer // writes what is healed
	// Leased returns a context for calls of other services, which ends with the lease of compute's database.
	Leased func(ctx context.Context) (bound context.Context, stop context.CancelFunc, err error)
	// Alone calls do while no step of a server is performed. It returns false if a step is due.
	Alone func(server string, do func()) bool
}

// Audit is the result of comparing compute's records of one host with Placement. Both lists are empty if they agree.
type Audit struct {
	Host    string
	Missing []Missing // by server and consumer
	Foreign []Foreign // by consumer

	treeState string // of the tree when its root was read; empty: Placement has none
}

// Missing is a consumer of a server on the host whose allocation in Placement is smaller than its claim.
type Missing struct {
	Server, Name string // id and name
	Consumer     string // the id of the server or of its migration
	Lacks        resource.Allocation
	Refused      string // why HostHeal does not write it, as a clause; empty: it does, if there is room
	Outcome      string // set by HostHeal: what was done, or why nothing was done
	Healed       bool   // set by HostHeal
}

// Foreign is a consumer that has resources of the host in Placement although compute has not placed it there.
type Foreign struct {
	Consumer string
	Holds    resource.Allocation
	Why      string    // what compute's records have of the consumer, as a clause
	Unknown  bool      // compute has no server and no migration with this id
	Since    time.Time // when an audit first found it
	Kept     string    // why HostHeal does not remove it when asked to, as a clause; empty: it does
	Outcome  string    // set by HostHeal, if it was asked to remove it
	Removed  bool      // set by HostHeal
	Undo     string    // set by HostHeal: the command that writes the allocations of the consumer as they were
}

// holdings are the allocations on some providers, by provider and consumer.
type holdings map[provider.ID]map[resource.ConsumerID]resource.Amounts

// audit compares the allocations that the servers on a host must have with those that Placement has on some of its
// providers; the first provider is the root. If they differ it compares once more and keeps what differs both times,
// because a server that is changing differs for a moment. It reports foreign consumers only if foreign is set.
func (a *Auditor) audit(ctx context.Context, host string, on []provider.ID, foreign bool) (Audit, error) {
	first, err := a.auditOnce(ctx, host, on, foreign)
	if err != nil || len(first.Missing)+len(first.Foreign) == 0 {
		return first, err
	}
	if len(first.Missing) > 0 { // on a NUMA node, if the host has just got providers of these
		known, err := a.store.Host(ctx, host)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return Audit{}, err
		}
		for _, id := range known.NodeProviders() {
			if !slices.Contains(on, id) {
				on = append(slices.Clip(on), id)
			}
		}
	}
	second, err := a.auditOnce(ctx, host, on, foreign)
	if err != nil {
		return Audit{}, err
	}
	second.Missing = slices.DeleteFunc(second.Missing, func(m Missing) bool {
		return !slices.ContainsFunc(first.Missing, func(f Missing) bool {
			return f.Server == m.Server && f.Consumer == m.Consumer
		})
	})
	second.Foreign = slices.DeleteFunc(second.Foreign, func(m Foreign) bool {
		return !slices.ContainsFunc(first.Foreign, func(f Foreign) bool { return f.Consumer == m.Consumer })
	})
	return second, nil
}

// auditOnce reads the servers of the host, then Placement, and then the records of the remaining consumers.
func (a *Auditor) auditOnce(ctx context.Context, host string, on []provider.ID, foreign bool) (Audit, error) {
	out := Audit{Host: host}
	servers, err := a.store.OnHost(ctx, host)
	if err != nil {
		return out, err
	}
	held := holdings{}
	tree, err := a.placement.TreeAllocations(ctx, on[0], len(on) > 1)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return out, err
	}
	out.treeState = tree.State
	for i, id := range on {
		if held[id] = tree.By[id]; i == 0 || tree.Whole {
			continue
		}
		if held[id], err = a.placement.ProviderAllocations(ctx, id); err != nil && !fault.Is(err, fault.NotFound) {
			return out, err
		}
	}
	known, err := a.withCells(ctx, host, servers)
	if err != nil {
		return out, err
	}
	placed := map[resource.ConsumerID]bool{}
	for _, s := range servers {
		for _, residence := range s.Residences() {
			placed[resource.ConsumerID(residence.Consumer)] = true
		}
		for _, e := range s.Expected(host) {
			for _, also := range e.Also {
				placed[resource.ConsumerID(also)] = true
			}
			if lacks := lacking(e, known, on[0], held); len(lacks) > 0 {
				m := Missing{Server: s.ID, Name: s.Name, Consumer: e.Consumer, Lacks: lacks}
				out.Missing = append(out.Missing, m)
			}
		}
	}
	slices.SortFunc(out.Missing, func(a, b Missing) int {
		return cmp.Or(cmp.Compare(a.Server, b.Server), cmp.Compare(a.Consumer, b.Consumer))
	})
	if foreign {
		out.Foreign, err = a.foreign(ctx, host, held, placed)
	}
	return out, err
}

// withCells returns a host as its agent has reported it, if a server on it has NUMA cells: only then audits depend on
// the report.
func (a *Auditor) withCells(ctx context.Context, name string, on []lifecycle.Server) (schedule.Host, error) {
	for _, s := range on {
		for _, residence := range s.Residences() {
			if residence.Host == name && len(residence.Topology) > 0 {
				host, err := a.store.Host(ctx, name)
				if fault.Is(err, fault.NotFound) {
					err = nil
				}
				return host, err
			}
		}
	}
	return schedule.Host{}, nil
}

// lacking returns the amounts by which the allocation is too small on the providers that were read. A claim on the root
// provider that the host had then is expected on its present root provider. Threads for dedicated CPUs may be on the
// root or on nodes: the agent may have moved them since the report. Nothing is missing if only other amounts of nodes
// are: the agent adds these itself.
func lacking(e lifecycle.Expectation, host schedule.Host, root provider.ID, held holdings) resource.Allocation {
	lacks, want := resource.Allocation{}, e.On(host)
	consumer := resource.ConsumerID(e.Consumer)
	for id, amounts := range want {
		if id == e.Root {
			id = root
		}
		consumers, read := held[id]
		if !read {
			continue
		}
		for class, n := range amounts {
			has := consumers[consumer][class]
			for _, also := range e.Also {
				has = max(has, consumers[resource.ConsumerID(also)][class])
			}
			if has < n {
				if lacks[id] == nil {
					lacks[id] = resource.Amounts{}
				}
				lacks[id][class] = n - has
			}
		}
	}
	dedicated := 0
	for _, holder := range append([]string{e.Consumer}, e.Also...) {
		n := 0
		for _, id := range append(host.NodeProviders(), root) {
			n += held[id][resource.ConsumerID(holder)][numa.DedicatedCPUs]
		}
		dedicated = max(dedicated, n)
	}
	if dedicated >= want.Sum()[numa.DedicatedCPUs] {
		for id, amounts := range lacks {
			if delete(amounts, numa.DedicatedCPUs); len(amounts) == 0 {
				delete(lacks, id)
			}
		}
	}
	for class := range lacks.Sum() {
		if !numa.IsNodeClass(class) || class == numa.DedicatedCPUs {
			return lacks
		}
	}
	return nil
}

// foreign lists the consumers that have allocations on a host and are not placed there.
func (a *Auditor) foreign(ctx context.Context, host string, held holdings, placed map[resource.ConsumerID]bool) (
	list []Foreign, err error) {
	holds := map[resource.ConsumerID]resource.Allocation{}
	for id, consumers := range held {
		for consumer, amounts := range consumers {
			if placed[consumer] {
				continue
			}
			if holds[consumer] == nil {
				holds[consumer] = resource.Allocation{}
			}
			holds[consumer][id] = amounts
		}
	}
	for _, consumer := range slices.Sorted(maps.Keys(holds)) {
		why, err := a.whyForeign(ctx, string(consumer), host)
		if err != nil {
			return nil, err
		}
		if why != "" {
			list = append(list, Foreign{Consumer: string(consumer), Holds: holds[consumer], Why: why,
				Unknown: why == unknownConsumer})
		}
	}
	return list, nil
}

// unknownConsumer is what compute's records have of a consumer that is neither a server nor a migration.
const unknownConsumer = "compute has no server and no migration with this id"

// whyForeign returns what compute's records have of a consumer with an allocation on a host, as a clause. It is empty
// if the allocation may be right: the consumer has been placed there since, or a step of its server is due.
func (a *Auditor) whyForeign(ctx context.Context, consumer, host string) (string, error) {
	id, err := a.store.ServerOfConsumer(ctx, consumer)
	var server lifecycle.Server
	if err == nil {
		server, err = a.store.Read(ctx, id)
	}
	switch {
	case fault.Is(err, fault.NotFound):
		return unknownConsumer, nil
	case err != nil:
		return "", err
	case len(server.Steps()) > 0:
		return "", nil
	}
	var hosts []string
	for _, residence := range server.Residences() {
		if residence.Consumer == consumer {
			hosts = append(hosts, residence.Host)
		}
	}
	name := fmt.Sprintf("server %s (%s)", server.Name, id)
	if consumer != id {
		name = "a migration of " + name
	}
	switch {
	case slices.Contains(hosts, host):
		return "", nil
	case len(hosts) > 0:
		return fmt.Sprintf("it is %s, which compute has placed on %s", name, strings.Join(hosts, ", ")), nil
	}
	return fmt.Sprintf("it is %s, which compute has placed on no host", name), nil
}

// conditions returns the conditions of the host that follow from the audit. Allocations are missing since a time.
func (a Audit) conditions(missingSince time.Time) (out []condition.Condition) {
	if len(a.Missing) > 0 {
		var list []string
		for _, m := range a.Missing {
			list = append(list, fmt.Sprintf("server %s (%s) lacks %s", m.Name, m.Server, m.Lacks.Sum()))
		}
		subject := only(list, a.Missing[0].Server)
		out = append(out, condition.New(condition.MissingAllocations, subject, fmt.Sprintf("Placement lacks allocations of "+
			"servers on this host: %s; no server is placed here until they are written back; `berth host heal %s` shows "+
			"what it would write", JoinFirst(list), a.Host)).At(missingSince))
	}
	if len(a.Foreign) > 0 {
		var list []string
		since := a.Foreign[0].Since
		for _, f := range a.Foreign {
			list = append(list, fmt.Sprintf("%s has %s (%s)", f.Consumer, f.Holds.Sum(), f.Why))
			if f.Since.Before(since) {
				since = f.Since
			}
		}
		subject := only(list, a.Foreign[0].Consumer)
		out = append(out, condition.New(condition.ForeignAllocations, subject, fmt.Sprintf("consumers that compute has not "+
			"placed on this host have resources of it in Placement: %s; `berth host heal %s` shows which of them can be "+
			"removed", JoinFirst(list), a.Host)).At(since))
	}
	return out
}

// only returns the subject of a condition about a list: what its first entry concerns, if there is no other one.
func only(list []string, first string) string {
	if len(list) > 1 {
		return ""
	}
	return first
}

// maxNamed is how many servers or allocations a refusal names.
const maxNamed = 5

// JoinFirst joins the first maxNamed items of a list and adds how many more there are.
func JoinFirst(list []string) string {
	if more := len(list) - maxNamed; more > 0 {
		return fmt.Sprintf("%s, and %d more", strings.Join(list[:maxNamed], ", "), more)
	}
	return strings.Join(list, ", ")
}

// Auditor keeps the last audit of each host, and the hosts that are to be audited.
type Auditor struct {
	Options

	store     Store
	placement Placement

	mu        sync.Mutex
	last      map[string]audited
	hosts     map[string]schedule.Host // those that have reported to this process
	queued    map[string]time.Time     // when an audit was queued last
	due       []schedule.Host          // in the order of their reports; each host once
	waits     map[string]bool          // the names of the hosts in due
	wake      chan struct{}            // has room for one
	suspected time.Time                // audits from before this moment are out of date: Placement may have been restored

	reported      map[string]Reported  // by host
	reportedSince map[string]time.Time // by host, since when it has differences
	reportedUntil time.Time
}

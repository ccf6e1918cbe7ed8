package audit

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// whyKept returns why an operator cannot remove the allocation of a foreign consumer, as a clause. It is empty only if
// the agent of the host reports, and has neither a guest nor a device of the consumer; if compute does not know the
// consumer, no other agent may have a guest of it either.
func (a *Auditor) whyKept(ctx context.Context, host schedule.Host, f Foreign) (string, error) {
	for _, d := range host.Devices {
		if string(d.Holder) == f.Consumer {
			return fmt.Sprintf("the agent reports that it holds device %s", d.Address), nil
		}
	}
	if a.Agents.SinceReport(host.Name) >= a.Agents.SilentAfter() {
		return "the agent of the host does not report, so it is not known whether it has a guest of it", nil
	}
	hosts, err := a.store.Hosts(ctx)
	if err != nil {
		return "", err
	}
	for _, h := range hosts {
		for _, g := range h.Present {
			if (h.Name == host.Name || f.Unknown) && (g.ID == f.Consumer || f.Unknown && g.Server == f.Consumer) {
				return fmt.Sprintf("the agent of %s reports a guest with this id", h.Name), nil
			}
		}
	}
	return "", nil
}

// removeForeign removes what the named consumers have on a host, and sets the outcome of each. It changes no consumer
// for which whyKept has a reason now.
func (a *Auditor) removeForeign(ctx context.Context, host schedule.Host, found *Audit, named []string) error {
	for i := range found.Foreign {
		f := &found.Foreign[i]
		if !slices.Contains(named, f.Consumer) {
			continue
		}
		why, err := a.whyKept(ctx, host, *f)
		if err != nil {
			return err
		}
		if f.Kept = why; why != "" {
			f.Outcome = "not removed: " + why
			continue
		}
		err = a.removeHolding(ctx, host.Name, f)
		switch {
		case fault.Is(err, fault.Unavailable):
			return err
		case err != nil:
			f.Outcome = "not removed: " + fault.TextOf(err)
		}
	}
	return nil
}

// removeHolding removes an allocation on a host as the audit has found it, unless the consumer may have the host now.
// If another client has changed the consumer since it is read here, Placement refuses with fault.Conflict. So the
// record is read after the allocation: a claim is recorded before it is written.
func (a *Auditor) removeHolding(ctx context.Context, host string, f *Foreign) error {
	consumer := resource.ConsumerID(f.Consumer)
	held, err := a.placement.Allocation(ctx, consumer)
	if err != nil {
		return err
	}
	if why, err := a.whyForeign(ctx, f.Consumer, host); err != nil {
		return err
	} else if why == "" {
		f.Outcome = "not removed: compute has placed it on the host meanwhile, or a step of its server is due"
		return nil
	}
	before := held
	held.Allocation = maps.Clone(held.Allocation)
	for id := range f.Holds {
		delete(held.Allocation, id)
	}
	if len(held.Allocation) == len(before.Allocation) {
		f.Outcome, f.Removed = "removed by another client", true
		return nil
	}
	if err := a.Writer.PutAllocation(ctx, consumer, held); err != nil {
		return err
	}
	f.Outcome, f.Removed, f.Undo = "removed", true, undoCommand(consumer, before)
	a.Log.Warn("allocation of an unknown consumer removed", "consumer", f.Consumer, "undo", f.Undo)
	return nil
}

// undoCommand returns the command that writes the allocations of a consumer as they were.
func undoCommand(consumer resource.ConsumerID, was placement.ConsumerAllocation) string {
	words := []string{"openstack --os-placement-api-version 1.38 resource provider allocation set"}
	for _, id := range slices.Sorted(maps.Keys(was.Allocation)) {
		for _, class := range was.Allocation[id].Sorted() {
			words = append(words, fmt.Sprintf("--allocation rp=%s,%s=%d", id, class, was.Allocation[id][class]))
		}
	}
	words = append(words, "--project-id", was.Project, "--user-id", was.User)
	if was.ConsumerType != "" {
		words = append(words, "--consumer-type", was.ConsumerType)
	}
	return strings.Join(append(words, string(consumer)), " ")
}

// elsewhere returns where Placement has a consumer instead of, or beside, the host on which compute expects it, as a
// clause; empty: nowhere else. After a restore of compute's database, its records can be older than Placement's: a
// consumer with allocations on two hosts would then be charged twice, and the audit of neither host could show which is
// right.
func (a *Auditor) elsewhere(ctx context.Context, host string, e lifecycle.Expectation, held resource.Allocation) (
	string, error) {
	if len(held) == 0 {
		return "", nil
	}
	hosts, err := a.store.Hosts(ctx)
	if err != nil {
		return "", err
	}
	for _, h := range hosts {
		on := resource.Allocation{}
		for _, id := range providersOf(h) {
			if _, expected := e.Allocation[id]; !expected && len(held[id]) > 0 {
				on[id] = held[id]
			}
		}
		if h.Name == host || len(on) == 0 {
			continue
		}
		return fmt.Sprintf("Placement has %s of it on %s, compute's records have it on %s%s; after a restore one of both "+
			"is out of date: see \"Backup and restore\" in the operator guide", on.Sum(), h.Name, host,
			guestReports(hosts, e.Consumer)), nil
	}
	return "", nil
}

// guestReports returns which agents report a guest of a consumer.
func guestReports(hosts []schedule.Host, consumer string) string {
	var names []string
	for _, h := range hosts {
		if slices.ContainsFunc(h.Present, func(g schedule.Present) bool { return g.ID == consumer }) {
			names = append(names, h.Name)
		}
	}
	if len(names) == 0 {
		return ", and no agent reports its guest"
	}
	return ", and its guest is reported by the agent of " + strings.Join(names, " and ")
}

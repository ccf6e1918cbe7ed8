package audit

import (
	"context"
	"slices"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// HostAudit audits a host now. It returns fault.NotFound if no agent has reported for it.
func (a *Auditor) HostAudit(ctx context.Context, name string) (Audit, error) {
	host, err := a.store.Host(ctx, name)
	if err != nil {
		return Audit{}, err
	}
	found, err := a.auditHost(ctx, host)
	if err != nil {
		return found, err
	}
	return found, a.explainAudit(ctx, host, &found)
}

// explainAudit sets Refused and Kept of an audit: what HostHeal would not do, and why.
func (a *Auditor) explainAudit(ctx context.Context, host schedule.Host, found *Audit) error {
	for i := range found.Missing {
		m := &found.Missing[i]
		held, err := a.placement.Allocation(ctx, resource.ConsumerID(m.Consumer))
		if err != nil {
			return err
		}
		server, err := a.store.Read(ctx, m.Server)
		if err != nil {
			return err
		}
		for _, e := range server.Expected(host.Name) {
			if e.Consumer != m.Consumer {
				continue
			}
			if m.Refused, err = a.elsewhere(ctx, host.Name, e, held.Allocation); err != nil {
				return err
			}
		}
	}
	for i := range found.Foreign {
		var err error
		if found.Foreign[i].Kept, err = a.whyKept(ctx, host, found.Foreign[i]); err != nil {
			return err
		}
	}
	return nil
}

// Healing is what HostHeal does beside writing what is missing.
type Healing struct {
	Oversubscribe bool     // write also what exceeds the capacity
	Remove        []string // foreign consumers whose allocations on the host are removed
}

// HostHeal adds to Placement the allocations that an audit of a host finds missing. It does not write a consumer for
// which there is no room, unless Oversubscribe is set: then the use of the provider exceeds its capacity. It does not
// write one that Placement has on another host. It removes what the consumers in Remove have on the host, if whyKept
// has no reason against it, and nothing else. The returned audit has the outcome for each consumer. It returns
// fault.NotFound if no agent has reported for the host, or, before it changes anything, for a consumer in Remove that
// is not foreign there. It returns no error after it has changed something: the outcomes have it, and how a removal is
// undone.
func (a *Auditor) HostHeal(ctx context.Context, name string, o Healing) (Audit, error) {
	ctx, stop, err := a.Leased(ctx)
	if err != nil {
		return Audit{}, err
	}
	defer stop()
	host, err := a.store.Host(ctx, name)
	if err != nil {
		return Audit{}, err
	}
	found, err := a.auditHost(ctx, host)
	if err != nil {
		return found, err
	}
	for _, consumer := range o.Remove {
		if !slices.ContainsFunc(found.Foreign, func(f Foreign) bool { return f.Consumer == consumer }) {
			return found, fault.New(fault.NotFound, "consumer %s has no allocation on host %s that could be removed; "+
				"`berth host heal %s` lists them", consumer, name, name)
		}
	}
	err = a.removeForeign(ctx, host, &found, o.Remove)
	if err == nil {
		err = a.healMissing(ctx, host, &found, o.Oversubscribe)
	}
	if err != nil && !found.isChanged() {
		return found, err
	}
	if err != nil {
		found.giveUp(o.Remove, err)
	}
	if _, err := a.auditHost(ctx, host); err != nil {
		a.Log.Info("host not audited after healing, will retry with its next report", "host", name, "error", err)
	}
	return found, nil
}

// isChanged reports whether something was removed or written.
func (a *Audit) isChanged() bool {
	return slices.ContainsFunc(a.Foreign, func(f Foreign) bool { return f.Removed }) ||
		slices.ContainsFunc(a.Missing, func(m Missing) bool { return m.Healed })
}

// giveUp sets the outcome of what was not done because of an error.
func (a *Audit) giveUp(remove []string, err error) {
	for i := range a.Foreign {
		if f := &a.Foreign[i]; f.Outcome == "" && slices.Contains(remove, f.Consumer) {
			f.Outcome = "not removed: " + fault.TextOf(err)
		}
	}
	for i := range a.Missing {
		if m := &a.Missing[i]; m.Outcome == "" {
			m.Outcome = "not written: " + fault.TextOf(err)
		}
	}
}

// healMissing writes what is missing, and sets the outcomes. It returns an error if the database or Placement does not
// answer.
func (a *Auditor) healMissing(ctx context.Context, host schedule.Host, found *Audit, oversubscribe bool) (err error) {
	for i := range found.Missing {
		m := &found.Missing[i]
		alone := a.Alone(m.Server, func() { err = a.healOne(ctx, host, m, oversubscribe) })
		if !alone {
			m.Outcome = "not written: a step of the server is due; try again later"
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// healOne adds what one consumer lacks, and sets the outcome. The caller must prevent that a step of the server is
// performed meanwhile. It returns an error if the database or Placement does not answer.
func (a *Auditor) healOne(ctx context.Context, host schedule.Host, m *Missing, oversubscribe bool) error {
	server, err := a.store.Read(ctx, m.Server)
	if err != nil {
		return err
	}
	expected := server.Expected(host.Name)
	i := slices.IndexFunc(expected, func(e lifecycle.Expectation) bool { return e.Consumer == m.Consumer })
	if i < 0 || len(server.Steps()) > 0 {
		m.Outcome = "not written: the server has changed in the meantime"
		return nil
	}
	err = a.Writer.Update(ctx, resource.ConsumerID(m.Consumer), func(held placement.ConsumerAllocation) error {
		return a.writeBack(ctx, server, expected[i], host, m, held, oversubscribe)
	})
	switch {
	case fault.Is(err, fault.Unavailable):
		return err
	case err == nil:
		m.Outcome, m.Healed = "written", true
	case fault.Is(err, fault.Conflict) && m.Refused != "":
		m.Outcome = "not written: " + m.Refused
	case fault.Is(err, fault.Conflict) && !oversubscribe:
		m.Outcome = "not written: " + fault.TextOf(err) + "; --oversubscribe writes it without room"
	default:
		m.Outcome = "not written: " + fault.TextOf(err)
	}
	return nil
}

// writeBack adds to the allocation held by a consumer what it lacks of its expectation, on the providers of m.Lacks. If
// Placement has the consumer on another host, it sets m.Refused and returns fault.Conflict.
func (a *Auditor) writeBack(ctx context.Context, s lifecycle.Server, e lifecycle.Expectation, host schedule.Host,
	m *Missing, held placement.ConsumerAllocation, oversubscribe bool) (err error) {
	consumer := resource.ConsumerID(e.Consumer)
	if m.Refused, err = a.elsewhere(ctx, host.Name, e, held.Allocation); err != nil {
		return err
	}
	if m.Refused != "" {
		return fault.New(fault.Conflict, "%s", m.Refused)
	}
	has := holdings{}
	for id := range m.Lacks {
		has[id] = map[resource.ConsumerID]resource.Amounts{consumer: held.Allocation[id]}
	}
	e.Also = nil
	added := lacking(e, host, host.Provider, has)
	if len(added) == 0 {
		return nil // another client has added it
	}
	held.Allocation, held.Project, held.User = held.Allocation.Add(added), s.Project, s.User
	if held.ConsumerType = "INSTANCE"; e.Consumer != s.ID {
		held.ConsumerType = "MIGRATION"
	}
	err = a.Writer.PutAllocation(ctx, consumer, held)
	if !oversubscribe || !placement.Refused(err) || fault.Is(err, fault.Forbidden) {
		return err
	}
	all := map[resource.ConsumerID]placement.ConsumerAllocation{consumer: held}
	return a.Writer.PutWithRoom(ctx, all, held.Allocation, added, err)
}

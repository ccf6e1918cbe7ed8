package sync

import (
	"slices"
	"time"

	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/agent/treeplan"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// begin emits the first step of the plan. It returns true when there is none.
func (b *bandwidthSync) begin() (done bool) {
	b.writes = bandwidthWrites{generations: map[provider.ID]int{}, failed: map[bandwidth.AgentType]bool{},
		missing: map[provider.ID]bool{}}
	return b.next()
}

// next emits the next step, or returns true when there is none. A failed step does not prevent the others, except for
// those of a provider that was not created and of those below it.
func (b *bandwidthSync) next() (done bool) {
	w := &b.writes
	for ; w.step < len(b.plan.Steps); w.step++ {
		step := b.plan.Steps[w.step]
		if w.missing[step.Provider] || w.missing[step.Parent] {
			w.missing[step.Provider] = true
			continue
		}
		if generation, written := w.generations[step.Provider]; written {
			step.Generation = generation
		}
		b.Log("placement", "step", step.String())
		b.DoAfterWrite(state.WriteProvider{Step: step})
		return false
	}
	return true
}

// written records the end of a step and emits the next one. It returns true when there is none.
func (b *bandwidthSync) written(e state.ProviderWritten) (done bool) {
	w := &b.writes
	step := b.plan.Steps[w.step]
	switch {
	case e.Err != nil:
		w.conflict = w.conflict || fault.Is(e.Err, fault.Conflict) || fault.Is(e.Err, fault.NotFound)
		w.errors = append(w.errors, "bandwidth is not reported as configured: "+string(step.Op)+" "+step.Name+": "+
			fault.TextOf(e.Err))
		n, _ := bandwidth.ParseName(step.Name)
		w.failed[n.Agent] = true // a trait belongs to none: all agent types may need it
		if step.Op == treeplan.CreateProvider {
			w.missing[step.Provider] = true
		}
	case givesGeneration(step.Op):
		w.generations[step.Provider] = e.Generation
	}
	w.step++
	return b.next()
}

// changedTree reports whether the plan was written and may change which providers have bandwidth to allocate.
func (b *bandwidthSync) changedTree() bool {
	return len(b.writes.errors) == 0 && slices.ContainsFunc(b.plan.Steps, func(s treeplan.Step) bool {
		return s.Op == treeplan.PutInventories
	})
}

// retry returns the maximum wait until the next sync after a failure: from two seconds, growing. 0: nothing has failed.
func (b *bandwidthSync) retry() time.Duration {
	if len(b.writes.errors) == 0 && len(b.notReached) == 0 {
		b.failures = 0
		return 0
	}
	b.failures++
	return 10 * b.Backoff(b.failures)
}

// report updates the conditions about bandwidth, and which agent types are synced.
func (b *bandwidthSync) report() {
	var found []condition.Condition
	add := func(subject string, sentences ...string) {
		for _, text := range sentences {
			found = append(found, condition.New(condition.Bandwidth, subject, text))
		}
	}
	add("", b.notReachedSentences()...)
	add("", b.findings...)
	bad := map[bandwidth.AgentType]bool{}
	for _, o := range b.plan.Objections {
		add(o.Name, o.String())
		n, _ := bandwidth.ParseName(o.Name)
		bad[n.Agent] = true
	}
	add("", b.writes.errors...)
	state.SetConditions(b.Core, string(condition.Bandwidth), found)
	for _, note := range b.plan.Notes {
		b.Warn(note)
	}
	for _, a := range b.agents() {
		ok := !b.writes.failed[a.Type] && !b.writes.failed[""] && !bad[a.Type]
		for _, d := range a.Providers() {
			_, unreached := b.notReached[d.Name.Hypervisor]
			ok = ok && !unreached
		}
		b.Synced[a.Type] = ok
	}
}

// notAttempted records that a sync has failed before the part for bandwidth.
func (b *bandwidthSync) notAttempted() {
	for _, a := range b.agents() {
		b.Synced[a.Type] = false
	}
}

// AddressesOfVFs returns the addresses of the VFs of the PF that has a network interface, sorted.
func AddressesOfVFs(devices []pci.Device, netdev string) (vfs []string) {
	for _, d := range devices {
		at := slices.IndexFunc(devices, func(pf pci.Device) bool { return d.Parent != nil && pf.Address == *d.Parent })
		if at >= 0 && slices.Contains(devices[at].Net, netdev) {
			vfs = append(vfs, d.Address.String())
		}
	}
	slices.Sort(vfs)
	return vfs
}

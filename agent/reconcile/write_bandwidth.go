package reconcile

import (
	"time"

	"github.com/openberth/berth/agent/treeplan"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

// bandwidthTries is how often the plan for bandwidth is discarded because another client wrote to a provider, before a
// longer wait.
const bandwidthTries = 10

// bandwidthWrites is the progress of a plan for bandwidth.
type bandwidthWrites struct {
	failed   map[bandwidth.AgentType]bool // of providers with a failed step
	missing  map[provider.ID]bool         // not created, so that further steps of them are left out
	errors   []string
	conflict bool // another client has written meanwhile
}

// beginBandwidth begins the plan for bandwidth, after the one for devices was executed, discarded or has failed.
func (s *syncer) beginBandwidth() {
	s.recordOwned(s.bandwidth.plan.Owned, ownedOf(s.state))
	s.stage, s.step, s.generations = writingBandwidth, 0, map[provider.ID]int{}
	s.writes = bandwidthWrites{failed: map[bandwidth.AgentType]bool{}, missing: map[provider.ID]bool{}}
	s.writeBandwidthStep()
}

// writeBandwidthStep emits the next step of the plan, or ends the sync. A failed step does not prevent the others,
// except for those of a provider that was not created and of those below it.
func (s *syncer) writeBandwidthStep() {
	steps := s.bandwidth.plan.Steps
	for ; s.step < len(steps); s.step++ {
		step := steps[s.step]
		if s.writes.missing[step.Provider] || s.writes.missing[step.Parent] {
			s.writes.missing[step.Provider] = true
			continue
		}
		if generation, written := s.generations[step.Provider]; written {
			step.Generation = generation
		}
		s.log("placement", "step", step.String())
		s.doAfterWrite(WriteProvider{Step: step})
		return
	}
	s.bandwidthEnded()
}

// bandwidthWritten records the end of a step and continues with the next one.
func (s *syncer) bandwidthWritten(e ProviderWritten) {
	step, w := s.bandwidth.plan.Steps[s.step], &s.writes
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
	case step.Op != treeplan.CreateTrait && step.Op != treeplan.DeleteProvider:
		s.generations[step.Provider] = e.Generation
	}
	s.step++
	s.writeBandwidthStep()
}

// bandwidthEnded ends a sync after the part for bandwidth. After a conflict the sync begins again.
func (s *syncer) bandwidthEnded() {
	b, w := s.bandwidth, s.writes
	if s.planErr != nil {
		s.reportBandwidth()
		s.failed(s.planErr)
		return
	}
	if s.try++; w.conflict && s.try < bandwidthTries {
		s.log("provider tree changed concurrently, observing again", "error", w.errors[0])
		s.stage, s.retryAt = retrying, s.now.Add(s.backoff(s.try))
		return
	}
	s.reportBandwidth()
	s.end(nil)
	if len(w.errors) == 0 && len(b.notReached) == 0 {
		s.bandwidthFailures = 0
		return
	}
	s.bandwidthFailures++
	s.longest = s.bandwidthRetry()
}

// bandwidthRetry returns the wait after a failure: from two seconds to the interval between two syncs.
func (s *syncer) bandwidthRetry() time.Duration { return 10 * s.backoff(s.bandwidthFailures) }

// reportBandwidth updates the conditions about bandwidth, and which agent types are synced.
func (s *syncer) reportBandwidth() {
	b, w := s.bandwidth, s.writes
	sentences := append(b.notReachedSentences(), b.findings...)
	bad := map[bandwidth.AgentType]bool{}
	for _, o := range b.plan.Objections {
		sentences = append(sentences, o.String())
		n, _ := bandwidth.ParseName(o.Name)
		bad[n.Agent] = true
	}
	s.condition("bandwidth", append(sentences, w.errors...)...)
	for _, note := range b.plan.Notes {
		s.warn(note)
	}
	for _, a := range b.agents {
		ok := !w.failed[a.Type] && !w.failed[""] && !bad[a.Type]
		for _, d := range a.Providers() {
			_, unreached := b.notReached[d.Name.Hypervisor]
			ok = ok && !unreached
		}
		s.synced[a.Type] = ok
	}
}

// bandwidthFailed records that a sync has failed before the part for bandwidth.
func (s *syncer) bandwidthFailed() {
	if !s.config.ReportBandwidth {
		return
	}
	for _, a := range s.config.Bandwidth {
		s.synced[a.Type] = false
	}
}

// Heartbeats returns what the network service must receive about this host: one heartbeat for each agent type with
// devices for networks. Without report_bandwidth there is none, because Neutron's agents send their own.
func (s *State) Heartbeats() []bandwidth.Heartbeat {
	if !s.config.ReportBandwidth {
		return nil
	}
	var out []bandwidth.Heartbeat
	for _, a := range s.config.Bandwidth {
		h := bandwidth.Heartbeat{Agent: a.Type, Host: s.config.Host, Configurations: a.Configurations(),
			Providers: a.ProviderIDs()}
		if synced, attempted := s.syncer.synced[a.Type]; attempted {
			h.Synced = &synced
		}
		out = append(out, h)
	}
	return out
}

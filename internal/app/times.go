package app

import (
	"github.com/openberth/berth/agent/loop"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/compute/audit"
	"github.com/openberth/berth/compute/conductor"
	"github.com/openberth/berth/internal/settings"
	"github.com/openberth/berth/network/operations"
)

// conductorTimes returns the times of a conductor.
func conductorTimes(t settings.ComputeTimes) conductor.Times {
	return conductor.Times{DeadHosts: t.DeadHosts, Assignments: t.Assignments, Search: t.Search, Reconnect: t.Reconnect,
		Retry: t.Retry, Reclaim: t.Reclaim,
		Audit: audit.Times{Every: t.AuditEvery, Again: t.AuditAgain, Soon: t.AuditSoon, Poll: t.AuditPoll}}
}

// agentTimes returns the times of an agent.
func agentTimes(s settings.Settings) loop.Times {
	t := s.Times.Agent
	return loop.Times{Rescan: s.Rescan, GuestSettle: t.GuestSettle, HypervisorCheck: t.Check,
		HeartbeatPoll: t.HeartbeatPoll, HeartbeatRetry: t.HeartbeatRetry,
		Times: state.Times{Retry: t.Retry, Refusal: t.Refusal, SecondSync: t.SecondSync, Followed: t.Followed}}
}

// networkTimes returns the times of a network service.
func networkTimes(t settings.NetworkTimes) operations.Times {
	return operations.Times{Retry: t.Retry, Complete: t.Complete, Age: t.Age}
}

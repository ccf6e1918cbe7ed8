package settings

import "time"

// Times are the intervals, waits and limits of the services that no option sets. A zero one has the default of the
// package that waits. Only tests set them: those of this process by TestTimes, and those that start processes of Berth
// by the build tag testtimes.
type Times struct {
	Compute ComputeTimes
	Agent   AgentTimes
	Network NetworkTimes

	AuditWait time.Duration // between the two looks of the audits of `berth up`
}

// ComputeTimes are the times of compute.
type ComputeTimes struct {
	LeaseTTL, LeaseRenew time.Duration // of the database: validity without renewal, interval of renewals

	Reconnect   time.Duration // how long the admitted start of an agent has to reconnect
	Assignments time.Duration // how often assignments are compared with what agents have followed
	Search      time.Duration // how often another host is searched for servers that wait for an agent
	DeadHosts   time.Duration // how often servers on dead hosts are reconciled
	Retry       time.Duration // the longest wait between two attempts of a step of a server
	Reclaim     time.Duration // how often servers are looked for that must be deleted or offloaded

	// ages of audits: without a difference, with one, without a report of the host; how often they are compared
	AuditEvery, AuditAgain, AuditSoon, AuditPoll time.Duration
}

// AgentTimes are the times of an agent.
type AgentTimes struct {
	Retry          time.Duration // the longest wait after failures
	Refusal        time.Duration // the wait after the first refusal of the hypervisor
	SecondSync     time.Duration // the longest wait after a sync that found a missing allocation for the first time
	Followed       time.Duration // between two signs of life that acknowledge assignments
	GuestSettle    time.Duration // between the first change of a guest and the observation of all
	Check          time.Duration // between two checks of the hypervisor
	HeartbeatPoll  time.Duration // within which a change is sent to the network service
	HeartbeatRetry time.Duration // after a heartbeat that was not sent
	PowerVMPoll    time.Duration // between two reads of a job of NovaLink
}

// NetworkTimes are the times of the network service.
type NetworkTimes struct {
	Retry    time.Duration // the first wait after a failed call
	Complete time.Duration // how often recorded changes of allocations are looked for
	Age      time.Duration // how old such a change is when it is completed
}

// TestTimes returns short times for tests. Those after which something counts as lost are long enough for a machine
// with many other processes.
func TestTimes() Times {
	const ms = time.Millisecond
	return Times{
		Compute: ComputeTimes{LeaseTTL: 3 * time.Second, LeaseRenew: 300 * ms, Reconnect: 10 * time.Second,
			Assignments: 200 * ms, Search: time.Second, DeadHosts: 500 * ms, Retry: time.Second,
			Reclaim:    300 * ms,
			AuditEvery: 2 * time.Second, AuditAgain: 300 * ms, AuditSoon: 300 * ms, AuditPoll: 100 * ms},
		Agent: AgentTimes{Retry: time.Second, Refusal: 300 * ms, SecondSync: 300 * ms, Followed: 100 * ms,
			GuestSettle: 100 * ms, Check: 300 * ms, HeartbeatPoll: 100 * ms, HeartbeatRetry: 300 * ms, PowerVMPoll: 50 * ms},
		Network:   NetworkTimes{Retry: 100 * ms, Complete: time.Second, Age: 5 * time.Second},
		AuditWait: 300 * ms,
	}
}

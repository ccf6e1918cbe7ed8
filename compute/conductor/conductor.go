// Package conductor performs the steps of servers, and the requests of users, operators and agents that change them. It
// connects the packages that do the parts: presence, audit, scheduler, allocations and ports. Package runner calls it.
//
// The files, from the bottom to the top: config.go, what all parts use; claim.go, min_count.go, restore_checks.go,
// which stops steps after a restore, and shelved_images.go; steps.go, which performs one step of a server;
// unanswered.go; conductor.go; the requests of users, operators and agents: actions.go, create_delete.go,
// guest_report.go, dead_hosts.go, host_forget.go and reclaim.go; run.go; open.go, which connects the parts.
package conductor

import (
	"context"
	"sync"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/runner"
	"github.com/openberth/berth/condition"
)

// Conductor runs the life cycles of servers. The HTTP handlers pass it the requests of users and the reports of agents.
// Its exported fields are those of Config, and the parts that the handlers call directly: Agents, Audits, Scheduler and
// Ports.
type Conductor struct {
	*dependencies

	monitor *monitor

	steps  *performer
	runner *runner.Runner[lifecycle.Server, lifecycle.Event, lifecycle.Step]

	mirror chan struct{} // has an element while MirrorAggregates is to be done

	deadHosts    sync.Mutex    // held while HostDead events are applied, so that none is applied after HostUp
	firstReports time.Duration // how long to wait after the start for hosts to report
}

// HostConditions returns the conditions of a host that compute has found: those of its last audit, and whether its
// agent follows the assignments.
func (c *Conductor) HostConditions(host string) []condition.Condition {
	return append(c.Audits.Conditions(host), c.Agents.Conditions(host)...)
}

// Perform performs the first due step of a server and applies its event, for a caller that does not call Run. It
// returns the error of the step, which is due again then; nil also if no step is due.
func (c *Conductor) Perform(ctx context.Context, id string) error { return c.runner.Step(ctx, id) }

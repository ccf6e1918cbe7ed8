package conductor

import (
	"cmp"
	"context"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/trace"
	"github.com/openberth/berth/compute/audit"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/ports"
	"github.com/openberth/berth/compute/presence"
	"github.com/openberth/berth/compute/runner"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/scheduler"
	"github.com/openberth/berth/fault"
)

// New returns a conductor. It starts nothing; Run does.
func New(store Store, client Placement, config Config) *Conductor {
	on := newDependencies(store, client, config)
	c := &Conductor{dependencies: on, firstReports: presence.FirstReports,
		mirror: make(chan struct{}, 1)}
	alone := func(server string, do func()) bool { return c.runner.Alone(server, do) }
	on.Audits = audit.New(store, client, audit.Options{Log: on.Log, Now: on.Now, Times: on.Times.Audit,
		Agents: on.Agents, Writer: on.writer, Leased: on.leased, Alone: alone})
	options := scheduler.Options{Pack: on.Pack, Aliases: on.Aliases, PCIInPlacement: on.PCIInPlacement,
		Silence: on.Silence, DefaultZone: on.DefaultZone,
		Audits: on.Audits, Agents: on.Agents, Failures: on.failures, Now: on.Now, NewID: on.NewID,
		Leased: on.leased}
	if on.Network != nil {
		options.Network = on.Network
	}
	on.Scheduler = scheduler.New(store, client, options)
	on.Ports = ports.New(store, ports.Options{Log: on.Log, Network: on.Network, Trees: on.Providers, Writer: on.writer,
		Scheduler: on.Scheduler, Leased: on.leased, Alone: alone})
	c.steps = &performer{dependencies: on, build: on.Scheduler.Build,
		wake: func(id string) { c.runner.Wake(id) }}
	c.runner = runner.New(store, c.machine(), 0)
	c.runner.Carry, c.runner.Now = trace.Carry, on.Now
	c.runner.Retry.Max = cmp.Or(on.Times.Retry, c.runner.Retry.Max)
	c.monitor = &monitor{dependencies: on, leaving: map[string]schedule.Choice{},
		searched: map[string]*search{},
		apply: func(ctx context.Context, server string, event lifecycle.Event) error {
			_, err := c.runner.Apply(ctx, server, event)
			return err
		}}
	return c
}

// machine returns the state machine of servers.
func (c *Conductor) machine() runner.Machine[lifecycle.Server, lifecycle.Event, lifecycle.Step] {
	m := runner.Machine[lifecycle.Server, lifecycle.Event, lifecycle.Step]{
		Next:    lifecycle.Next,
		Steps:   lifecycle.Server.Steps,
		Perform: c.steps.perform,
		StepFailed: func(step lifecycle.Step, err error) lifecycle.Event {
			return lifecycle.StepFailed{Step: step, Reason: fault.TextOf(err), Refused: placement.Refused(err)}
		},
		Group: func(s lifecycle.Server) string { return s.Project },
		Pure:  func(step lifecycle.Step) bool { return step == lifecycle.Prepare },
		Gone:  func(err error) bool { return fault.Is(err, fault.NotFound) },
	}
	if c.Metrics != nil {
		m.Stored = c.Metrics.Stored
	}
	return m
}

// Backlog returns how many servers have a step that is due, is being performed or waits after a failure.
func (c *Conductor) Backlog() int { return c.runner.Backlog() }

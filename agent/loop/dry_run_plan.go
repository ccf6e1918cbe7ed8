package loop

import (
	"context"

	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/reconcile"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/agent/treeplan"
	"github.com/openberth/berth/fault"
)

// Plan returns what the agent would write to Placement now, by the code that writes it. It changes nothing, and works
// whether the agent runs or not. The plan's objections include those of treeplan.Check. Warnings about the
// configuration are written to the log.
func (a *Agent) Plan(ctx context.Context) (treeplan.Plan, error) {
	defer endIdleSessions(ctx, a)
	if err := a.o.Facts.Check(); err != nil {
		return treeplan.Plan{}, err
	}
	found, err := journal.Read(a.o.Dir)
	if err != nil {
		return treeplan.Plan{}, err
	}
	planner, err := reconcile.NewPlan(a.o.config(), found)
	if err != nil {
		return treeplan.Plan{}, err
	}
	events := []state.Event{state.Start{}}
	for len(events) > 0 {
		effects := planner.Next(events[0], a.o.Now())
		events = events[1:]
		for _, e := range effects {
			switch e := e.(type) {
			case state.Stop:
				return treeplan.Plan{}, e.Err
			case state.Log:
				if e.Warn {
					a.log.Warn(e.Message, e.Attrs...)
				}
			case state.WriteJournal:
				events = append(events, state.Written{})
			default:
				if event := a.read(ctx, e); event != nil {
					events = append(events, event)
				}
			}
		}
	}
	plan, made := planner.Plan()
	if !made {
		return plan, fault.New(fault.Internal, "the state machine made no plan")
	}
	return plan, nil
}

package lifecycle

import "slices"

// Steps lists the due steps of the server in the order in which they must be performed.
func (s Server) Steps() []Step {
	var steps []Step
	if _, ok := s.NextLeftover(); ok {
		steps = []Step{ReleaseLeftover}
	}
	steps = append(steps, s.ownSteps()...)
	if len(s.UnusedImages) > 0 { // last, because nothing waits for it
		steps = append(steps, DeleteImage)
	}
	return steps
}

// ownSteps lists the due steps except those for leftovers and unused images.
func (s Server) ownSteps() []Step {
	if (s.awaitsPorts() || s.AwaitsBindings() && !s.withdraws()) && s.portDevicesPicked() {
		return []Step{BindPorts}
	}
	if s.Move != nil {
		return s.Move.Phase.steps()
	}
	if s.State == Active && !s.BoundTo(s.Host) { // after a live migration, or after a move that went back
		return []Step{BindPorts}
	}
	if steps := s.shelvingSteps(); steps != nil {
		return steps
	}
	if s.State == Active && s.PortChange != nil && s.PortChange.isReady(s) {
		return []Step{ChangePort}
	}
	return s.State.steps()
}

// isDue reports whether a step is due. ReleaseLeftover and DeleteImage are not considered.
func (s Server) isDue(step Step) bool { return slices.Contains(s.ownSteps(), step) }

// steps lists the steps that are due in this state. A state without steps waits for an agent or a user, or is final.
func (s State) steps() []Step {
	switch s {
	case Preparing:
		return []Step{Prepare}
	case Scheduling:
		return []Step{Schedule}
	case Claiming:
		return []Step{Claim}
	case AwaitingMinCount:
		return []Step{CheckMinCount}
	case BindingPorts:
		return []Step{BindPorts}
	case Rescheduling, Failing, Offloading, DeletingAllocation:
		return []Step{Release}
	}
	return nil
}

// steps lists the steps that are due in this phase. A phase without steps waits for an agent, a user or an operator.
func (p MovePhase) steps() []Step {
	switch p {
	case PreparingMove:
		return []Step{Prepare}
	case Planning, SchedulingDestination:
		return []Step{Schedule}
	case BindingDestination:
		return []Step{BindPorts}
	case MovingAllocations:
		return []Step{MoveAllocations}
	case ClaimingDestination:
		return []Step{Claim}
	case RestoringAllocations:
		return []Step{RestoreAllocations}
	case ReschedulingDestination, ReleasingDestination:
		return []Step{Release}
	}
	return nil
}

package sim

import "github.com/openberth/berth/compute/schedule"

// planMemory is a schedule.PlanMemory.
type planMemory map[string]schedule.PlanAnswer

// Answer returns what was kept for a question.
func (m planMemory) Answer(question string) (schedule.PlanAnswer, bool) {
	answer, known := m[question]
	return answer, known
}

// Keep keeps the answer to a question.
func (m planMemory) Keep(question string, answer schedule.PlanAnswer) { m[question] = answer }

// planMemories are the memories for hosts by their states.
type planMemories map[string]planMemory

// mostPlanStates is the largest number of states of hosts that are remembered.
const mostPlanStates = 2000

// of returns the memory for hosts in a state.
func (all planMemories) of(state string) planMemory {
	if len(all) > mostPlanStates {
		clear(all)
	}
	if all[state] == nil {
		all[state] = planMemory{}
	}
	return all[state]
}

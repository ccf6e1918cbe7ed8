package store

import (
	"crypto/sha256"
	"sync"

	"github.com/openberth/berth/compute/schedule"
)

// The largest numbers of states of hosts, and of questions of one state, that are remembered.
const (
	maxPlanStates  = 4096
	maxPlanAnswers = 32
)

// planMemories remembers which servers fit on hosts in which state. It is safe for concurrent use.
type planMemories struct {
	mu      sync.Mutex
	byState map[[sha256.Size]byte]*planMemory
}

// of returns the memory for hosts in this state.
func (m *planMemories) of(state string) *planMemory {
	key := sha256.Sum256([]byte(state))
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byState == nil || len(m.byState) >= maxPlanStates {
		m.byState = map[[sha256.Size]byte]*planMemory{}
	}
	if m.byState[key] == nil {
		m.byState[key] = &planMemory{answers: map[string]schedule.PlanAnswer{}}
	}
	return m.byState[key]
}

// planMemory is a schedule.PlanMemory.
type planMemory struct {
	mu      sync.Mutex
	answers map[string]schedule.PlanAnswer
}

func (m *planMemory) Answer(question string) (schedule.PlanAnswer, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	answer, known := m.answers[question]
	return answer, known
}

func (m *planMemory) Keep(question string, answer schedule.PlanAnswer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.answers) >= maxPlanAnswers {
		clear(m.answers)
	}
	m.answers[question] = answer
}

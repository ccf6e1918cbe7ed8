package candidate

import (
	"cmp"
	"crypto/sha256"
)

// failedStates remembers the states in which a search has failed, as digests. It is bounded: when it is full, it drops
// everything and starts again. A state that was dropped is searched again if it comes up, which costs only time.
type failedStates struct {
	states map[[16]byte]struct{}
	most   int // 0: mostStates
}

// mostStates is how many states are remembered: a few megabytes.
const mostStates = 1 << 16

func (f *failedStates) has(state []byte) bool {
	if len(f.states) == 0 {
		return false
	}
	_, known := f.states[digest(state)]
	return known
}

func (f *failedStates) add(state []byte) {
	if f.states == nil {
		f.states = map[[16]byte]struct{}{}
	}
	if len(f.states) >= cmp.Or(f.most, mostStates) {
		clear(f.states)
	}
	f.states[digest(state)] = struct{}{}
}

// drop removes all states, and frees the memory of a large map.
func (f *failedStates) drop() {
	if len(f.states) > 1024 {
		f.states = nil
	}
	clear(f.states)
}

func digest(state []byte) [16]byte {
	sum := sha256.Sum256(state)
	return [16]byte(sum[:])
}

package journal

import (
	"testing"

	"github.com/openberth/berth/agent/device"
)

// TestStateDuringWrite reads the state while a write holds the journal: the reader gets what is on the disk and does
// not wait, and it gets the new state as soon as the write has returned.
func TestStateDuringWrite(t *testing.T) {
	j := open(t, t.TempDir())
	ok(t, j.Write(Put("s1", []device.Claim{claim("s1", "r1", "0000:3b:00.1")})))

	j.mu.Lock() // as a write does until the disk has answered
	during := make(chan State)
	go func() { during <- j.State() }()
	state := <-during
	j.mu.Unlock()
	if got := len(state.Claims()); got != 1 {
		t.Errorf("%d claims during the write, want 1", got)
	}

	ok(t, j.Write(Put("s2", []device.Claim{claim("s2", "r2", "0000:3b:00.2")})))
	if got := len(j.State().Claims()); got != 2 {
		t.Errorf("%d claims after the write, want 2", got)
	}
	if got := len(state.Claims()); got != 1 {
		t.Errorf("a later write changed the state that was returned before: %d claims", got)
	}
}

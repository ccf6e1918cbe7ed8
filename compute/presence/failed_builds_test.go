package presence

import (
	"testing"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
)

// A failure counts for a limited time, and not if the guest of a live migration has stayed on its source.
func TestFailuresEnd(t *testing.T) {
	var f FailedBuilds
	noon := time.Now()
	f.Record(lifecycle.GuestRunning{Host: "a"}, lifecycle.Server{}, noon)
	f.Record(lifecycle.GuestFailed{Host: "b"}, lifecycle.Server{}, noon)
	f.Record(lifecycle.GuestFailed{Host: "c"}, lifecycle.Server{
		Move: &lifecycle.Move{From: lifecycle.Residence{Host: "c"}}}, noon)
	if got := f.Recent(noon.Add(failureTime)); len(got) != 1 || !got["b"] {
		t.Errorf("%v", got)
	}
	if got := f.Recent(noon.Add(failureTime + 1)); len(got) != 0 {
		t.Errorf("later: %v", got)
	}
}

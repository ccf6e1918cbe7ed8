package cli

import (
	"testing"

	"github.com/openberth/berth/api/host"
)

// TestHostStateIsSilentAsComputeDecides compares the state with what compute decides from the same time without a sign
// of life: a time that is less than the limit is not rounded up to it.
func TestHostStateIsSilentAsComputeDecides(t *testing.T) {
	for _, c := range []struct {
		quiet     float64
		connected bool
		want      string
	}{
		{59.9, true, "up"},
		{59.9, false, "not connected for 59s"},
		{60, true, "silent for 1m0s"},
		{119.9, false, "silent for 1m59s"},
	} {
		got := host.Report{Quiet: c.quiet, SilentAfter: 60, Connected: c.connected}.StateText()
		if got != c.want {
			t.Errorf("%.1f s without a sign of life, connected %v: %q, want %q", c.quiet, c.connected, got, c.want)
		}
	}
}

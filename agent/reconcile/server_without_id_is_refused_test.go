package reconcile

import (
	"strings"
	"testing"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/condition"
)

// Assignments with a server without an id are not followed, and a condition gives the reason.
func TestAServerWithoutAnIDIsRefused(t *testing.T) {
	d := newDriver(t)
	d.settle(nil)
	d.assign(1, "s1", "")
	d.settle(nil)
	text := strings.Join(condition.Texts(d.state.Report().Conditions), "\n")
	if !strings.Contains(text, "a server without an id") || len(d.guests) > 0 {
		t.Errorf("conditions %q, guests %v", text, d.guests)
	}
	d.assign(2, "s1")
	d.settle(nil)
	if d.phase() != host.Running || len(d.state.Report().Conditions) > 0 {
		t.Errorf("phase %s, conditions %v", d.phase(), d.state.Report().Conditions)
	}
}

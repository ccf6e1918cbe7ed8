package reconcile

import (
	"slices"
	"testing"

	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
)

// Reports that nothing is left of a guest name each id under which the agent has removed it, so that compute recognises
// a report of an earlier guest with the same id.
func TestReportsOfRemovalsNameTheIDs(t *testing.T) {
	at := host.Position{Epoch: 1, EpochID: "e", Revision: 1}
	small := host.Server{VCPUs: 1, MemoryMB: 512, DiskGB: 1}
	big := host.Server{ID: "s1", PreviousID: "m1", VCPUs: 1, MemoryMB: 512, DiskGB: 1,
		Requests: []host.Request{{ID: "r", Count: 9}}} // more devices than the host has
	small.ID = "s1"
	for name, test := range map[string]struct {
		line  host.Assignments
		phase host.Phase
		want  []string
	}{
		"removed": {host.Assignments{Remove: []host.Removal{{ID: "s1"}}}, host.Gone, []string{"s1"}},
		"with a former id": {host.Assignments{Remove: []host.Removal{{ID: "s1", PreviousID: "m1"}}}, host.Gone,
			[]string{"s1", "m1"}},
		"cannot be built": {host.Assignments{Servers: []host.Server{big}}, host.Failed, []string{"s1", "m1"}},
		"exists":          {host.Assignments{Servers: []host.Server{small}}, host.Running, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDriver(t)
			d.settle(nil)
			test.line.Cloud, test.line.Position = "c", at
			d.deliver(state.Received{Assignments: test.line})
			d.settle(nil)
			if last := d.reports[len(d.reports)-1]; last.Phase != test.phase || !slices.Equal(last.Removed, test.want) {
				t.Errorf("phase %q, removed %v", last.Phase, last.Removed)
			}
		})
	}
}

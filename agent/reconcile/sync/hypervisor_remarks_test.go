package sync

import (
	"testing"

	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/reconcile/state"
)

// What the hypervisor remarks is a condition of what it concerns.
func TestSubjectsOfRemarks(t *testing.T) {
	o := state.Observation{Capacity: hypervisor.Capacity{
		Remarks:   hypervisor.Remarks{{Text: "no KVM"}, {Subject: "/var/a.json", Text: "damaged"}},
		Transfers: []hypervisor.Transfer{{Subject: "image", Text: "is copied"}}},
		Guests: []hypervisor.Guest{{ID: "g", Observed: hypervisor.Observed{Remark: "is lost"}}, {ID: "fine"}}}
	want := []struct{ subject, text string }{{"", "no KVM"}, {"/var/a.json", "damaged"}, {"image", "is copied"},
		{"g", "is lost"}}
	got := problems(facts.Facts{}, o)
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i, c := range got {
		if c.Subject != want[i].subject || c.Text != want[i].text {
			t.Errorf("%+v, want %+v", c, want[i])
		}
	}
}

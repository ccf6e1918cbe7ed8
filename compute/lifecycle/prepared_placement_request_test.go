package lifecycle

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/pci"
)

// The request to Placement is stored once: a repeated step brings other request ids, and they do not count.
func TestRequestIsStoredOnce(t *testing.T) {
	again := Prepared{Requests: []pci.Request{{ID: "again", Alias: "nic", Count: 1}}}
	s := applyAll(fresh(), Created{})
	if s.State != Preparing || !slices.Equal(s.Steps(), []Step{Prepare}) || len(s.History) > 0 || s.Updated != noon {
		t.Fatalf("%s %v %+v", s.Stage(), s.Steps(), s.History)
	}
	if s = applyAll(s, prepared, again); s.State != Scheduling || s.Requests[0].ID != "R" {
		t.Errorf("%s %+v", s.Stage(), s.Requests)
	}
	s = applyAll(s, Chosen{Choices: []schedule.Choice{choice("a")}}, Claimed{Try: 1}, GuestRunning{Host: "a"})
	s = applyAll(s, ActionRequested{ID: "m", Action: Resize, Flavor: flavor.Flavor{ID: "large"}})
	if s.Phase() != PreparingMove || !slices.Equal(s.Steps(), []Step{Prepare}) || s.TaskState() != "resize_prep" ||
		len(s.Requests) != 0 || s.Move.From.Requests[0].ID != "R" {
		t.Fatalf("%s %v %+v", s.Stage(), s.Steps(), s.Requests)
	}
	if s = applyAll(s, again, prepared); s.Phase() != Planning || s.Requests[0].ID != "again" ||
		!strings.HasPrefix(s.History[len(s.History)-1].Text, "resize from a: asks for") {
		t.Errorf("%s %+v %+v", s.Stage(), s.Requests, s.History)
	}
}

// A request that cannot be built, because the configuration has changed, ends a new server in ERROR and a resize where
// it was.
func TestRequestThatCannotBeBuilt(t *testing.T) {
	refused := Refused{Step: Prepare, Reason: "there is no alias nic."}
	const says = "The request to Placement cannot be built: there is no alias nic."
	s := applyAll(fresh(), Created{}, refused)
	if s.Status() != "ERROR" || s.State != Error || s.Fault.Message != says {
		t.Errorf("%s %+v", s.Stage(), s.Fault)
	}
	before := ran(t)
	s = applyAll(before, ActionRequested{ID: "m", Action: Resize, Flavor: flavor.Flavor{ID: "large"}}, refused)
	if s.Status() != "ACTIVE" || s.TaskState() != "" || s.Flavor.ID != before.Flavor.ID || s.Host != "a" ||
		!reflect.DeepEqual(s.Requests, before.Requests) || s.Migration.Status != "error" ||
		s.History[len(s.History)-1].Text != says+" It goes back to a." {
		t.Errorf("%s %s %+v", s.Status(), s.Stage(), s.History)
	}
}

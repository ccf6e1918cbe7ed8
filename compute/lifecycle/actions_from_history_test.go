package lifecycle

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/openberth/berth/compute/schedule"
)

// names returns the names of the past actions.
func names(s Server) (list []string) {
	for _, a := range s.PastActions() {
		list = append(list, a.Name)
	}
	return list
}

// TestPastActions performs every action and checks that the history is recognised as that action.
func TestPastActions(t *testing.T) {
	chosen := Chosen{Choices: []schedule.Choice{choice("b")}, Candidates: 1}
	resized := []Event{ActionRequested{ID: "m", Action: Resize}, prepared, chosen, AllocationsMoved{},
		GuestStopped{Host: "a", Consumer: "m"}, Claimed{Try: 2}, GuestStopped{Host: "a", Consumer: "m"},
		GuestRunning{Host: "b", Consumer: "s"}}
	stopped := []Event{ActionRequested{Action: Stop}, GuestStopped{Host: "a", Consumer: "s"}}
	shelved := []Event{ActionRequested{Action: Shelve}, GuestGone{Host: "a", Consumer: "s"}, Released{}}
	for _, c := range []struct {
		name   string
		events []Event
		want   []string
	}{
		{"nothing", nil, nil},
		{"stop and start", append(slices.Clone(stopped), ActionRequested{Action: Start}), []string{"stop", "start"}},
		{"reboot", []Event{ActionRequested{Action: Reboot}}, []string{"reboot"}},
		{"rebuild", []Event{ActionRequested{Action: Rebuild, Image: "i"}}, []string{"rebuild"}},
		{"resize and confirm", append(slices.Clone(resized), ActionRequested{Action: Confirm}),
			[]string{"resize", "confirmResize"}},
		{"resize and revert", append(slices.Clone(resized), ActionRequested{Action: Revert}),
			[]string{"resize", "revertResize"}},
		{"migrate", []Event{ActionRequested{ID: "m", Action: Migrate}}, []string{"migrate"}},
		{"live", []Event{ActionRequested{ID: "m", Action: Live}}, []string{"live-migration"}},
		{"evacuate", []Event{ActionRequested{ID: "m", Action: Evacuate}}, []string{"evacuate"}},
		{"shelve and unshelve", append(slices.Clone(shelved), ActionRequested{Action: Unshelve}),
			[]string{"shelve", "unshelve"}},
		{"snapshot", []Event{ActionRequested{ID: "i", Action: Snapshot, DiskFormat: "raw"}}, []string{"createImage"}},
		{"backup", []Event{ActionRequested{ID: "i", Action: Backup, DiskFormat: "raw"}}, []string{"createBackup"}},
		{"delete", []Event{DeleteRequested{}}, []string{"delete"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := applyAll(ran(t), c.events...)
			if got := names(s); !slices.Equal(got, append([]string{"create"}, c.want...)) {
				t.Errorf("%v; history %+v", got, s.History)
			}
		})
	}
}

// TestPastActionsFail checks that a failed action is shown as one, and a finished one as ended.
func TestPastActionsFail(t *testing.T) {
	s := applyAll(fresh(), Created{}, prepared, NoValidHost{Reason: "1 host: full"})
	list := s.PastActions()
	if len(list) != 1 || !list[0].Failed || !list[0].Ended {
		t.Errorf("%+v", list)
	}
	s = applyAll(ran(t), ActionRequested{Action: Reboot})
	if list = s.PastActions(); list[1].Failed || list[1].Ended || list[0].Failed || !list[0].Ended {
		t.Errorf("%+v", list)
	}
	s = applyAll(ran(t), ActionRequested{Action: Stop},
		GuestRefused{Host: "a", Consumer: "s", Message: "the disk is busy"})
	if list = s.PastActions(); !list[1].Failed || !list[1].Ended {
		t.Errorf("%+v", list)
	}
	s = applyAll(fresh(), Created{}, prepared, NoValidHost{Reason: "full"}, DeleteRequested{})
	if got := names(s); !slices.Equal(got, []string{"create", "delete"}) {
		t.Errorf("%v; history %+v", got, s.History)
	}
}

// TestPastActionsHaveCallers checks that an action has the request that began it and its caller, and that two requests
// of one text are two actions.
func TestPastActionsHaveCallers(t *testing.T) {
	by := Caller{Request: "req-1", User: "u", Project: "p"}
	s := ran(t)
	s.CreateRequest, s.User, s.Project = "req-0", "owner", "q"
	s = applyAll(s, ActionRequested{ID: "1", Action: Reboot, Hard: true, By: by})
	s = applyAll(s, ActionRequested{ID: "2", Action: Reboot, Hard: true, By: Caller{Request: "req-2"}},
		ActionRequested{ID: "3", Action: Start, By: Caller{Request: "req-3"}}) // refused
	s = applyAll(s, DeleteRequested{By: Caller{Request: "req-4"}}, DeleteRequested{By: Caller{Request: "req-5"}})
	var got []string
	for _, a := range s.PastActions() {
		got = append(got, a.Name+" "+a.By.Request)
	}
	if want := []string{"create req-0", "reboot req-1", "reboot req-2", "delete req-4"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if list := s.PastActions(); list[1].By != by || list[0].By != (Caller{"req-0", "owner", "q"}) {
		t.Errorf("%+v", list)
	}
}

// TestPastPortChanges checks that each change of a port is an action with its own result.
func TestPastPortChanges(t *testing.T) {
	results := func(s Server) (list []string) {
		for _, a := range s.PastActions()[1:] {
			list = append(list, fmt.Sprint(a.Name, " ", a.By.Request, " ended ", a.Ended, " failed ", a.Failed))
		}
		return list
	}
	s := applyAll(ran(t), PortAttachRequested{ID: "1", By: Caller{Request: "req-1"}},
		PortAttachRequested{ID: "2", By: Caller{Request: "req-2"}})
	want := []string{"attach_interface req-1 ended false failed false", "attach_interface req-2 ended false failed false"}
	if got := results(s); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	s = applyAll(s, PortAttached{ID: "1", Port: Port{ID: "p", Host: "a"}}, PortNotAttached{ID: "2", Reason: "no address"},
		PortDetachRequested{ID: "3", Port: "p", By: Caller{Request: "req-3"}})
	want = []string{"attach_interface req-1 ended true failed false", "attach_interface req-2 ended true failed true",
		"detach_interface req-3 ended false failed false"}
	if got := results(s); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	want[2] = "detach_interface req-3 ended true failed false"
	if got := results(applyAll(s, PortDetached{ID: "3"})); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestDetails checks that a change of the details changes nothing else, and when it is refused.
func TestDetails(t *testing.T) {
	s := ran(t)
	later := noon.Add(time.Hour)
	d := Details{Name: "new", Description: "d", Metadata: map[string]string{"a": "b"}, Tags: []string{"x"}}
	changed := s.WithDetails(d, later)
	if changed.Name != "new" || changed.Details().Tags[0] != "x" || !changed.Updated.Equal(later) ||
		changed.Status() != s.Status() || len(changed.History) != len(s.History) {
		t.Errorf("%+v", changed)
	}
	if why := s.RefuseChange("update instance metadata", true); why != "" {
		t.Error(why)
	}
	busy := applyAll(s, ActionRequested{Action: Stop})
	if busy.RefuseChange("x", true) == "" || busy.RefuseChange("x", false) != "" {
		t.Errorf("%q, %q", busy.RefuseChange("x", true), busy.RefuseChange("x", false))
	}
	if fresh().RefuseChange("x", false) == "" {
		t.Error("a server without a guest can be changed")
	}
}

// TestActionsOutlastEntries checks that a long history keeps the actions and failures, and drops the entries between.
func TestActionsOutlastEntries(t *testing.T) {
	s := ran(t)
	for i := range maxActions - 10 {
		s = beginAction(s, addHistory(s, noon, fmt.Sprint("reboot requested: ", i)), "reboot", "",
			Caller{Request: fmt.Sprint(i)})
		for entry := range 5 {
			s = addHistory(s, noon, fmt.Sprint(i, " ", entry))
		}
	}
	s = addHistory(s, noon, "The guest cannot be started on a")
	for i := range 200 {
		s = addHistory(s, noon, fmt.Sprint("last ", i))
	}
	past := s.PastActions()
	if len(past) != maxActions-9 || past[1].By.Request != "0" || !past[len(past)-1].Failed {
		t.Errorf("%d actions, the first by %s, the last %+v", len(past), past[1].By.Request, past[len(past)-1].Failed)
	}
	for i := range 2 * maxActions {
		s = beginAction(s, addHistory(s, noon, fmt.Sprint("stop requested: ", i)), "stop", "", Caller{Request: fmt.Sprint(i)})
	}
	if past := s.PastActions(); len(past) != maxActions+1 || len(s.History) > maxActions+maxHistory {
		t.Errorf("%d actions, %d entries", len(past), len(s.History))
	}
}

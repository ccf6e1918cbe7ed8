package lifecycle

import (
	"slices"
	"testing"

	"github.com/openberth/berth/compute/schedule"
)

// A server whose agent has reported nothing of it is released at once when it is deleted, unless the host has its
// guest, as when the record is from a backup: then its end is awaited.
func TestDeletionBeforeAnyReport(t *testing.T) {
	assigned := applyAll(fresh(), Created{}, prepared, Chosen{Choices: []schedule.Choice{choice("a")}, Candidates: 1},
		Claimed{Try: 1})
	if s := applyAll(assigned, DeleteRequested{}); s.State != DeletingAllocation {
		t.Errorf("%s", s.State)
	}
	s := applyAll(assigned, DeleteRequested{Exists: true})
	if want := []Removal{{Host: "a", Consumer: "s"}}; s.State != DeletingGuest || !slices.Equal(s.Removals(), want) {
		t.Errorf("%s, %+v", s.State, s.Removals())
	}
	if s = applyAll(s, GuestGone{Host: "a", Consumer: "s"}); s.State != DeletingAllocation {
		t.Errorf("%s", s.State)
	}
}

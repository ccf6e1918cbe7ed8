package lifecycle

import (
	"slices"
	"testing"

	"github.com/openberth/berth/compute/schedule"
)

func TestEndedStays(t *testing.T) {
	active := func(host, was string) Server { return Server{ID: "s", State: Active, Host: host, Was: was} }
	moving := Server{ID: "s", State: Assigned, Host: "b", Move: &Move{From: Stay{Consumer: "m", Was: "s", Host: "a"}}}
	left := func(gone bool) Server {
		return Server{ID: "s", State: Active, Host: "b", Left: []Stay{{Consumer: "m", Was: "s", Host: "a", Gone: gone}}}
	}
	for _, c := range []struct {
		name          string
		before, after Server
		want          []Removal
	}{
		{"nothing changes", active("a", ""), active("a", ""), nil},
		{"it is deleted", active("a", ""), Server{ID: "s", State: Deleted}, []Removal{{Host: "a", Consumer: "s"}}},
		{"it is deleted before the agent has given the guest its new id", active("a", "m"), Server{ID: "s", State: Deleted},
			[]Removal{{Host: "a", Consumer: "m"}, {Host: "a", Consumer: "s"}}},
		{"the agent has given the guest its new id", active("a", "m"), active("a", ""), nil},
		{"a move begins", active("a", ""), moving, nil},
		{"the source is left behind", moving, left(false), nil},
		{"the source is gone", left(false), left(true), []Removal{{Host: "a", Consumer: "m"}, {Host: "a", Consumer: "s"}}},
		{"the source was gone before", left(true), active("b", ""), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := EndedStays(c.before, c.after); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestRemovalsAt(t *testing.T) {
	going := Server{ID: "s", State: Unassigning, Host: "a"}
	here := Server{ID: "t", State: Active, Host: "a"}
	got := RemovalsAt("a", []Server{going, here}, []string{"s", "t", "u"})
	if want := []Removal{{Host: "a", Consumer: "s"}, {Host: "a", Consumer: "u"}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestContradicts(t *testing.T) {
	s := Server{ID: "s", State: Active, Host: "a"}
	released := Server{ID: "s", State: Releasing, Host: "a"}
	if !released.Contradicts("a", false, []schedule.Present{{ID: "s", Server: "s"}}) {
		t.Error("a guest that the assignments do not mention on the host of a server that is to be released")
	}
	for _, c := range []struct {
		name   string
		host   string
		behind bool
		guest  schedule.Present
		want   bool
	}{
		{"its guest where the record has it", "a", false, schedule.Present{ID: "s", Server: "s", Assigned: true}, false},
		{"its guest where the record does not have it", "b", false, schedule.Present{ID: "s", Server: "s"}, true},
		{"a guest of a migration of it there", "b", false, schedule.Present{ID: "m", Server: "s"}, true},
		{"such a guest that the assignments name, as for removal", "b", false, schedule.Present{ID: "m", Server: "s", Assigned: true}, false},
		{"a guest of another server", "b", false, schedule.Present{ID: "t", Server: "t"}, false},
		{"a host that is behind, with its guest", "b", true, schedule.Present{ID: "s", Server: "s", Assigned: true}, true},
		{"a host that is behind, where the record has it", "a", true, schedule.Present{}, true},
		{"a host that is behind, with another guest", "b", true, schedule.Present{ID: "t", Server: "t", Assigned: true}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := s.Contradicts(c.host, c.behind, []schedule.Present{c.guest}); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

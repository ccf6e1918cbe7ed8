package lifecycle

import (
	"slices"
	"testing"
)

func TestEndedResidences(t *testing.T) {
	active := func(host, was string) Server {
		return Server{ID: "s", State: Active, Host: host, PreviousConsumer: was}
	}
	moving := Server{ID: "s", State: Moving, Host: "b", Move: &Move{Phase: SpawningDestination,
		From: Residence{Consumer: "m", PreviousConsumer: "s", Host: "a"}}}
	left := func(gone bool) Server {
		return Server{ID: "s", State: Active, Host: "b", Leftovers: []Residence{{Consumer: "m", PreviousConsumer: "s",
			Host: "a", Gone: gone}}}
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
			if got := EndedResidences(c.before, c.after); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestRemovalsAt(t *testing.T) {
	going := Server{ID: "s", State: DeletingGuest, Host: "a"}
	here := Server{ID: "t", State: Active, Host: "a"}
	got := RemovalsAt("a", []Server{going, here}, []string{"s", "t", "u"})
	if want := []Removal{{Host: "a", Consumer: "s"}, {Host: "a", Consumer: "u"}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

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

// A removal that is recorded by the former id of a guest is not listed before the agent has renamed the guest. The
// agent would report the former id as gone, and compute would release the allocation of the guest.
func TestRemovalsAtWithFormerIDs(t *testing.T) {
	from := Residence{Consumer: "m", PreviousConsumer: "s", Host: "a"}
	moving := Server{ID: "s", State: Moving, Move: &Move{Phase: AwaitingSourceAck, Consumer: "m", From: from}}
	deleted := Server{ID: "s", State: DeletedAwaitingCleanup, Leftovers: []Residence{from}}
	for name, c := range map[string]struct {
		server Server
		want   []Removal
	}{
		"assigned":      {moving, nil},
		"to be removed": {deleted, []Removal{{Host: "a", Consumer: "m", PreviousConsumer: "s"}}},
	} {
		if got := RemovalsAt("a", []Server{c.server}, []string{"s"}); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
	moving.Move.From.PreviousConsumer = ""
	renamed := []Removal{{Host: "a", Consumer: "s"}}
	if got := RemovalsAt("a", []Server{moving}, []string{"s"}); !slices.Equal(got, renamed) {
		t.Errorf("renamed: got %v", got)
	}
}

package host

import (
	"reflect"
	"strings"
	"testing"
)

// TestAccept tests that an agent follows only later assignments in the history that it has followed.
func TestAccept(t *testing.T) {
	at := Position{Epoch: 5, EpochID: "e5", Revision: 12}
	line := func(epoch int64, id string, revision int64, past *Position) Assignments {
		return Assignments{Position: Position{Epoch: epoch, EpochID: id, Revision: revision}, Past: past}
	}
	for name, c := range map[string]struct {
		at      Position
		line    Assignments
		refusal string // part of the reason; empty: followed
	}{
		"the first line ever":                   {Position{}, line(1, "e1", 0, nil), ""},
		"the same again":                        {at, line(5, "e5", 12, nil), ""},
		"the next revision":                     {at, line(5, "e5", 13, nil), ""},
		"an earlier revision of the same start": {at, line(5, "e5", 11, nil), "it is at revision 11, this host at 12"},
		"an earlier start": {at, line(4, "e4", 20, nil),
			"it is at start 4 of compute, this host has seen start 5"},
		"a copy that has counted as far": {at, line(5, "x5", 99, nil), "its start 5 of compute is another one"},
		"a later start, nothing lost":    {at, line(6, "e6", 12, &Position{5, "e5", 12}), ""},
		"a later start, changed since":   {at, line(9, "e9", 40, &Position{5, "e5", 30}), ""},
		"restored, this start ended earlier": {at, line(6, "e6", 10, &Position{5, "e5", 10}),
			"start 5 of compute ended there at revision 10"},
		"restored, and since then it has gone beyond": {at, line(7, "e7", 50, &Position{5, "e5", 10}),
			"start 5 of compute ended there at revision 10"},
		"restored to before this start": {at, line(6, "y6", 50, nil), "it has no record of start 5"},
		"a line with another start of compute": {at, line(6, "e6", 50, &Position{4, "e4", 50}),
			"it has no record of start 5"},
		"a copy's start of the same number": {at, line(6, "e6", 50, &Position{5, "x5", 50}), "it has no record of start 5"},
	} {
		if got := c.at.Accept(c.line); (got == "") != (c.refusal == "") || !strings.Contains(got, c.refusal) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A difference completes only the line that it is a difference to.
func TestAfter(t *testing.T) {
	at := func(epoch, revision int64) Position { return Position{Epoch: epoch, EpochID: "e", Revision: revision} }
	before := Assignments{Position: at(2, 5), Servers: []Server{{ID: "a"}, {ID: "c", Name: "old"}, {ID: "d"}}}
	change := Assignments{Position: at(2, 6), Base: 5, Servers: []Server{{ID: "b"}, {ID: "c", Name: "new"}},
		Left: []string{"d"}, Remove: []Removal{{ID: "d"}}}
	want := Assignments{Position: at(2, 6), Servers: []Server{{ID: "a"}, {ID: "b"}, {ID: "c", Name: "new"}},
		Remove: []Removal{{ID: "d"}}}
	if got, ok := change.After(before); !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v %v", got, ok)
	}
	if got, ok := want.After(before); !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("a complete line: %+v %v", got, ok)
	}
	for _, other := range []Assignments{{}, {Position: at(2, 4)}, {Position: at(3, 5)},
		{Position: Position{Epoch: 2, EpochID: "x", Revision: 5}}} {
		if _, ok := change.After(other); ok {
			t.Errorf("it is taken for a difference to %+v", other.Position)
		}
	}
}

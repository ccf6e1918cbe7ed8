package guests

import (
	"fmt"
	"slices"
	"testing"

	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
)

// A host has hundreds of servers of two projects to build. The server of a third project is among the first ones.
func TestProjectsTakeTurns(t *testing.T) {
	a := state.Assignments{Servers: map[string]host.Server{}}
	var ids []string
	add := func(id, project string) {
		a.Servers[id] = host.Server{ID: id, Project: project}
		ids = append(ids, id)
	}
	for n := range 500 {
		add(fmt.Sprintf("a%03d", n), "p1")
		add(fmt.Sprintf("b%03d", n), "p2")
	}
	add("z1", "p3")
	add("z2", "p3")
	slices.Sort(ids)
	takeTurns(a, ids)
	if first := ids[:6]; !slices.Equal(first, []string{"a000", "b000", "z1", "a001", "b001", "z2"}) {
		t.Errorf("the order is %v", first)
	}
}

package treeplan

import (
	"strings"
	"testing"

	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/provider"
)

// A device provider moves below the bandwidth provider of its NIC and back, with what consumers hold of it, and in no
// other direction; a move anywhere else is refused.
func TestMoveBelowBandwidth(t *testing.T) {
	name := bandwidth.Name{Hypervisor: "h", Agent: bandwidth.NICSwitch, Device: "ens1"}
	nic := provider.Provider{ID: name.ID(), Name: name.String(), Generation: 2}
	vfs := pf("81", stock("SRIOV_NET_VF", 4))
	held := uses("81", "s1", "SRIOV_NET_VF", 2)
	atRoot, below := tree(host, nic, vfs), tree(host, nic, vfs)
	for i, p := range below.Providers {
		if p.ID == vfs.ID {
			below.Providers[i].Parent = nic.ID
		}
	}
	aim := func(parent provider.ID) Aim {
		desired := tree(host, vfs)
		desired.Providers[1].Parent = parent
		return Aim{Tree: desired}
	}
	for what, c := range map[string]struct {
		from provider.Tree
		to   provider.ID
	}{"below": {atRoot, nic.ID}, "back": {below, "H"}} {
		plan, err := Make(aim(c.to), c.from, held, nil)
		if err != nil || len(plan.Steps) != 1 || plan.Steps[0].Op != MoveProvider || plan.Steps[0].Provider != vfs.ID ||
			plan.Steps[0].Parent != c.to || len(plan.Objections) > 0 {
			t.Fatalf("%s: %+v %v", what, plan, err)
		}
		if wrong := Check(plan, aim(c.to), c.from, held, nil); len(wrong) > 0 {
			t.Errorf("%s: %v", what, wrong)
		}
		after := Apply(plan, c.from)
		if again, err := Make(aim(c.to), after, held, nil); err != nil || !again.Empty() {
			t.Errorf("%s: %+v %v", what, again, err)
		}
	}
	for _, parent := range []provider.ID{"81", "unknown"} {
		plan := Plan{Steps: []Step{{Op: MoveProvider, Provider: vfs.ID, Name: vfs.Name, Parent: parent, Generation: 7}}}
		if wrong := Check(plan, aim("H"), atRoot, held, nil); len(wrong) == 0 ||
			!strings.Contains(wrong[0].Text, "neither the root nor a bandwidth provider") {
			t.Errorf("to %s: %v", parent, wrong)
		}
	}
	if _, err := Make(aim("unknown"), atRoot, held, nil); err == nil {
		t.Error("a parent that does not exist is accepted")
	}
}

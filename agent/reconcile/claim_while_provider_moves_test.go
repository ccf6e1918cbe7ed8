package reconcile

import (
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/agent/treeplan"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/provider"
)

// A write that follows the move of a provider has the generation for which it was planned. Moving a provider checks no
// generation and returns the present one, which a claim since the plan may have raised: the write must then be refused.
func TestAWriteAfterAMoveHasThePlannedGeneration(t *testing.T) {
	d := newDriver(t)
	d.state.core.Config.ReportInPlacement = true
	d.settle(nil)
	name := bandwidth.Name{Hypervisor: testHost, Agent: bandwidth.NICSwitch, Device: "nic0"}
	nic := provider.Provider{ID: name.ID(), Name: name.String(), Parent: testRoot, Root: testRoot}
	for i, p := range d.tree.Providers {
		if p.Parent == testRoot && strings.HasPrefix(p.Name, testHost+"_") {
			d.tree.Providers[i].Parent = nic.ID
			d.tree.Providers[i].Traits = p.Traits[1:] // it must be written again
			break
		}
	}
	d.tree.Providers = append(d.tree.Providers, nic)
	writes := func(e state.Effect) bool { _, is := e.(state.WriteProvider); return is }
	d.deliver(state.DevicesChanged{})
	d.settle(writes)
	move := d.nextWrite()
	if move.Op != treeplan.MoveProvider {
		t.Fatalf("%s", move)
	}
	d.deliver(state.ProviderWritten{Generation: move.Generation + 1}) // another client has written to it
	d.settle(writes)
	if next := d.nextWrite(); next.Provider != move.Provider || next.Generation != move.Generation {
		t.Errorf("%s has generation %d, planned was %d", next, next.Generation, move.Generation)
	}
}

// nextWrite removes the pending write of a provider, and returns its step.
func (d *driver) nextWrite() treeplan.Step {
	d.t.Helper()
	i := slices.IndexFunc(d.pending, func(e state.Effect) bool { _, is := e.(state.WriteProvider); return is })
	if i < 0 {
		d.t.Fatalf("no provider is written, pending %v", d.pending)
	}
	step := d.pending[i].(state.WriteProvider).Step
	d.pending = slices.Delete(d.pending, i, i+1)
	return step
}

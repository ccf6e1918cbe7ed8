package sync

import (
	"testing"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// An observation that began before the VFs of a PF changed is discarded, and another one begins.
func TestObservationDuringChangeOfVFs(t *testing.T) {
	core := state.NewCore(state.Config{}, journal.State{})
	s := NewSyncer(core)
	observes := func() (n int) {
		for _, e := range core.Out {
			if _, is := e.(state.Observe); is {
				n++
			}
		}
		return n
	}
	s.Advance()
	core.VFEpoch++
	s.Observed(state.Observed{})
	if s.Advance(); observes() != 2 || s.Begun || s.Restored {
		t.Errorf("%d observations, begun %t", observes(), s.Begun)
	}
}

// After the journal was lost, the number of VFs of a PF that a guest has as a whole card is the total of its provider,
// also if no rule offers the card any more: otherwise it would stay without VFs when the guest is gone.
func TestVFsOfHeldCardsComeFromPlacement(t *testing.T) {
	pf, vf := pci.Device{Address: pci.Address{Bus: 0x81}, Type: pci.Physical, TotalVFs: 4},
		pci.Device{Address: pci.Address{Bus: 0x82, Func: 1}, Type: pci.Virtual}
	for name, c := range map[string]struct {
		device pci.Device
		numVFs int
		total  int
		want   int
	}{
		"a card":                    {device: pf, total: 4, want: 4},
		"a card that has its VFs":   {device: pf, numVFs: 4, total: 4},
		"a PF that is offered only": {device: pf, total: 1},
		"a VF":                      {device: vf, total: 4},
	} {
		c.device.NumVFs = c.numVFs
		id := device.PCI(c.device.Address)
		core := state.NewCore(state.Config{}, journal.State{})
		cardVFs(core, state.Observation{
			Guests: []hypervisor.Guest{{ID: "s1", Devices: []hypervisor.Device{{ID: id, Provider: "P"}}}},
			Tree: provider.Tree{Providers: []provider.Provider{{ID: "P", Inventories: map[resource.Class]resource.Inventory{
				"CUSTOM_CARD": resource.Whole(c.total)}}}}}, []pci.Device{c.device})
		if got := core.State.VFs()[id]; got != c.want {
			t.Errorf("%s: %d VFs are to be restored, want %d", name, got, c.want)
		}
	}
}

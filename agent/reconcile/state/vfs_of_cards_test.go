package state

import (
	"testing"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/pci"
)

// The record of a PF's VFs is deleted when the PF has VFs again and nothing holds it or restores them: until then an
// observation may be from before they were removed.
func TestObservedVFs(t *testing.T) {
	pf := pci.Device{Address: pci.Address{Bus: 0x81}, Type: pci.Physical, TotalVFs: 4, NumVFs: 4}
	vf := pci.Device{Address: pci.Address{Bus: 0x81, Func: 1}, Type: pci.Virtual, Parent: &pf.Address}
	id := device.PCI(pf.Address)
	claims := func(d pci.Device) []device.Claim {
		return []device.Claim{{Offer: device.Offer{Offered: pci.Offered{Device: d, Holder: "s1"}}}}
	}
	for name, c := range map[string]struct {
		vfs       int
		held      []device.Claim
		restoring bool
		kept      bool
		sync      bool
	}{
		"free":                {vfs: 4},
		"free, fewer VFs":     {vfs: 1, sync: true},
		"free, without VFs":   {kept: true},
		"the PF is held":      {vfs: 4, held: claims(pf), kept: true},
		"a VF is held":        {vfs: 4, held: claims(vf), kept: true},
		"VFs are restored":    {vfs: 4, restoring: true, kept: true},
		"another PF is there": {vfs: 4, held: claims(pci.Device{Address: pci.Address{Bus: 0x82}})},
	} {
		core := NewCore(Config{}, journal.State{}.With(journal.VFs(id, 4)))
		core.Restoring[id] = c.restoring
		set, err := device.Restore(nil, c.held)
		if err != nil {
			t.Fatal(err)
		}
		core.Set = set
		now := pf
		now.NumVFs = c.vfs
		VFsObserved(core, []pci.Device{now})
		if kept := core.State.VFs()[id] == 4; kept != c.kept {
			t.Errorf("%s: the record is kept: %t", name, kept)
		}
		if core.WantSync != c.sync {
			t.Errorf("%s: a further sync is wanted: %t", name, core.WantSync)
		}
	}
}

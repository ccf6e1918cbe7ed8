package sync

import (
	"slices"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// cardVFs returns the numbers of VFs of PFs that guests have, or had, as a whole. If the journal was lost, Placement
// has the number, as the total of the provider.
func cardVFs(c *state.Core, o state.Observation, devices []pci.Device) map[device.ID]int {
	out := c.State.VFs()
	for _, g := range o.Guests {
		for _, d := range g.Devices {
			i := slices.IndexFunc(devices, func(on pci.Device) bool { return device.PCI(on.Address) == d.ID })
			if i < 0 || devices[i].Type != pci.Physical || devices[i].NumVFs > 0 || out[d.ID] > 0 {
				continue
			}
			if total := slicesOf(o.Tree, d.Provider); total > 1 {
				out[d.ID] = total
				c.Record(journal.VFs(d.ID, total))
			}
		}
	}
	return out
}

// slicesOf returns the largest total of a provider. That of a PF is above 1 only if its VFs are offered too.
func slicesOf(tree provider.Tree, id provider.ID) (total int) {
	p, _ := tree.ByID(id)
	for _, inv := range p.Inventories {
		total = max(total, inv.Total)
	}
	return total
}

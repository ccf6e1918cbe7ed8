package state

import (
	"slices"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/pci"
)

// A PF whose rule has shapes is given to guests without its VFs, and has them again when it is free. The journal has
// their number from before they are removed until they are observed again.

// WholeCards returns the PFs among claims whose VFs must not exist while a guest has them, and records how many VFs
// they have now.
func WholeCards(c *Core, claims []device.Claim) (pfs []device.ID) {
	known := c.State.VFs()
	for _, claim := range claims {
		if claim.Slices == 0 {
			continue
		}
		id := claim.ID()
		if n := scannedVFs(c, id); known[id] == 0 && n > 0 {
			c.Record(journal.VFs(id, n))
		}
		pfs = append(pfs, id)
	}
	return pfs
}

// scannedVFs returns how many VFs a PF on the host has. A claim does not know it if no rule offers the PF any more.
func scannedVFs(c *Core, pf device.ID) int {
	i := slices.IndexFunc(c.Scanned, func(d pci.Device) bool { return device.PCI(d.Address) == pf })
	if i < 0 {
		return 0
	}
	return c.Scanned[i].NumVFs
}

// CardHeld reports whether a server holds a PF or one of its VFs.
func CardHeld(c *Core, pf device.ID) bool {
	return slices.ContainsFunc(c.Set.Claims(), func(claim device.Claim) bool {
		return device.PCI(claim.Device.Holder()) == pf
	})
}

// VFsObserved deletes the records of PFs that are free and have VFs again. Another number than before is the
// operator's: a further sync writes it to Placement, because the plan of this one has the number of the record.
func VFsObserved(c *Core, devices []pci.Device) {
	known := c.State.VFs()
	for _, d := range devices {
		if id := device.PCI(d.Address); known[id] > 0 && d.NumVFs > 0 && !c.Restoring[id] && !CardHeld(c, id) {
			c.Record(journal.VFs(id, 0))
			c.WantSync = c.WantSync || d.NumVFs != known[id]
			c.Condition(condition.VFs, id.String())
		}
	}
}

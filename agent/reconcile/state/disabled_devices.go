package state

import (
	"fmt"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/pci"
)

// DisabledNow lists the disablements of the journal that are in force, by address.
func (c *Core) DisabledNow() (list []pci.Disablement) {
	for _, d := range c.State.Disabled() {
		if !d.Expired(c.Now) {
			list = append(list, d)
		}
	}
	return list
}

// ApplyDisabled makes the disablements of the journal that are in force effective for claims.
func (c *Core) ApplyDisabled() {
	c.Set = c.Set.Disable(c.DisabledNow())
}

// DisabledChanged makes changed disablements effective: for claims, in Placement and in the host report.
func (c *Core) DisabledChanged() {
	c.ApplyDisabled()
	var failed []condition.Condition
	for _, d := range c.DisabledNow() {
		if d.Check {
			failed = append(failed, condition.New(condition.FailedDevice, d.Address.String(), fmt.Sprintf(
				"%s is disabled, because its health check has failed: %s; repair it, then run `berth device enable %s %s`",
				d.Address, d.Reason, c.Config.Host, d.Address)))
		}
	}
	SetConditions(c, string(condition.FailedDevice), failed)
	c.WantSync, c.Freed, c.Wake = true, true, true
	c.ReportChanged()
}

// DisableFailed disables a device that has failed its health check. It returns false if an earlier failed check has
// disabled it already, and otherwise true: then the caller calls DisabledChanged.
func (c *Core) DisableFailed(id device.ID, reason string) bool {
	for _, d := range c.State.Disabled() {
		if d.Check && device.PCI(d.Address) == id {
			return false
		}
	}
	c.Record(journal.Disabled(pci.Disablement{ID: c.Config.NewID(), Address: id.Address(), Reason: reason,
		Since: c.Now, Check: true}))
	c.Warn("device failed its health check", "address", id.String(), "reason", reason)
	return true
}

// ReleaseReserved lets the next sync release what Placement has as reserved on the providers of a device or of the VFs
// of a PF: it counts as reserved by this agent, also what other clients have reserved. A device for one-time use must
// be cleaned for that.
func (c *Core) ReleaseReserved(at device.ID) {
	for _, e := range c.Set.Entries() {
		p, there := c.Tree.ByID(e.Provider)
		reserved := p.Inventories[e.ResourceClass].Reserved
		of := e.ID() == at || e.Parent != nil && device.PCI(*e.Parent) == at
		if of && there && !e.OneTimeUse && reserved > c.State.Reserved()[e.Provider] {
			c.Record(journal.Reserved(e.Provider, reserved))
			c.WantSync = true
		}
	}
}

// DisableVanished disables the offered devices that were on the host at the last observation and are not among present:
// an error has removed them from the bus. VFs are left out, because they vanish when their PF is configured again, and
// devices of other kinds, because they are moved between systems.
func (c *Core) DisableVanished(present []pci.Device) {
	if c.Config.HealthChecks <= 0 || !c.Restored {
		return
	}
	there := map[pci.Address]bool{}
	for _, d := range present {
		there[d.Address] = true
	}
	before := map[pci.Address]bool{}
	for _, d := range c.Scanned {
		before[d.Address] = true
	}
	changed := false
	for _, e := range c.Set.Entries() {
		at := e.Device.Holder()
		if before[at] && !there[at] && !at.IsIOSlot() && !e.Gone {
			changed = c.DisableFailed(device.PCI(at), "it has vanished from the host") || changed
		}
	}
	if changed {
		c.DisabledChanged()
	}
}

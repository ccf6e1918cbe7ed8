package state

import (
	"fmt"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/journal"
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
	var sentences []string
	for _, d := range c.DisabledNow() {
		if d.Check {
			sentences = append(sentences, fmt.Sprintf("%s is disabled, because its health check has failed: %s; repair it, "+
				"then run `berth device enable %s %s`", d.Address, d.Reason, c.Config.Host, d.Address))
		}
	}
	c.Condition("failed devices", sentences...)
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

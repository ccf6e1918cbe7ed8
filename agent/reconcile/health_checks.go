package reconcile

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// checker checks the health of the devices at an interval, one after the other. A device that fails is disabled until
// an operator enables it and it passes: an error that occurs now and then must not bring it back by itself.
type checker struct {
	*state.Core
	queue    []device.ID
	wanted   map[device.ID]string // ids of findings that end if the device passes a check that begins now
	checking *device.ID           // CheckDevice is in progress
	decides  string               // the finding of wanted that the check in progress decides; empty: none
	nextAt   time.Time
	retryAt  time.Time // of the checks of wanted, after one that could not be made
}

// recheck requests a check of a device whose disablement an operator has lifted. It returns false if no check decides:
// an operator has disabled the device, or devices are not checked.
func (c *checker) recheck(d pci.Disablement) bool {
	if !d.Check || c.Config.HealthChecks <= 0 {
		return false
	}
	if c.checking == nil || c.decides != d.ID {
		c.wanted[device.PCI(d.Address)] = d.ID
	}
	return true
}

// advance begins the next check: of devices that an operator has enabled first.
func (c *checker) advance() {
	if c.checking != nil || c.Config.HealthChecks <= 0 {
		return
	}
	if len(c.queue) == 0 && !c.Now.Before(c.nextAt) {
		c.queue, c.nextAt = c.devices(), c.Now.Add(c.Config.HealthChecks)
	}
	var at device.ID
	switch {
	case len(c.wanted) > 0 && !c.Now.Before(c.retryAt):
		at = slices.SortedFunc(maps.Keys(c.wanted), device.ID.Compare)[0]
		c.decides = c.wanted[at]
		delete(c.wanted, at)
	case len(c.queue) > 0:
		at, c.queue = c.queue[0], c.queue[1:]
	default:
		return
	}
	c.checking = &at
	c.Do(state.CheckDevice{Device: at})
}

// devices lists the devices that are checked: those that the host offers, and the PFs of VFs.
func (c *checker) devices() (list []device.ID) {
	for _, e := range c.Set.Entries() {
		if e.Gone {
			continue
		}
		list = append(list, e.ID())
		if e.Parent != nil {
			list = append(list, device.PCI(*e.Parent))
		}
	}
	slices.SortFunc(list, device.ID.Compare)
	return slices.Compact(list)
}

// deadline returns the time of the next check; zero while one is in progress.
func (c *checker) deadline() time.Time {
	if c.checking != nil || c.Config.HealthChecks <= 0 {
		return time.Time{}
	}
	if len(c.wanted) > 0 {
		return state.Earlier(c.nextAt, c.retryAt)
	}
	return c.nextAt
}

// ended applies the result of a check. A device that could not be checked stays as it is.
func (c *checker) ended(e state.DeviceChecked) {
	if c.checking == nil {
		return
	}
	at, finding := *c.checking, c.decides
	c.checking, c.decides = nil, ""
	if e.Err != nil {
		state.SetConditions(c.Core, string(condition.HealthCheck), []condition.Condition{condition.New(
			condition.HealthCheck, at.String(), fmt.Sprintf("device %s cannot be checked: %s", at, fault.TextOf(e.Err)))})
		c.retryAt = c.Now.Add(c.Config.HealthChecks)
		return
	}
	state.SetConditions(c.Core, string(condition.HealthCheck), nil)
	failed := c.judge(at, e.Health)
	_, open := c.State.Disablement(finding)
	if open {
		c.Record(journal.Enabled(finding))
	}
	if newly := failed != "" && c.DisableFailed(at, failed); newly || open {
		c.DisabledChanged()
	}
}

// judge returns why a device has failed a check; empty if it has not. Errors count if they have occurred since the
// counters were last seen. A counter that is lower was reset, as when the host was started again.
func (c *checker) judge(at device.ID, h state.Health) (failed string) {
	before, known := c.State.ErrorsOf(at)
	if h.Counted && !h.Missing && (!known || before != h.Errors) {
		c.Record(journal.ErrorsSeen(at, h.Errors))
	}
	switch {
	case h.Missing:
		if e, there := c.Set.At(at); there && e.Parent == nil && !e.Gone {
			return "it is not on the host"
		}
		return "" // its PF is configured for fewer VFs, or an operator has enabled it to forget it
	case h.Failed != "":
		return h.Failed
	case !h.Counted || !known:
		return ""
	case h.Errors.Fatal > before.Fatal:
		return fmt.Sprintf("PCIe has reported fatal errors (aer_dev_fatal was %d and is %d)", before.Fatal, h.Errors.Fatal)
	case h.Errors.Nonfatal > before.Nonfatal:
		return fmt.Sprintf("PCIe has reported uncorrectable errors (aer_dev_nonfatal was %d and is %d)", before.Nonfatal,
			h.Errors.Nonfatal)
	}
	return ""
}

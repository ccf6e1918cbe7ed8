package reconcile

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fault"
)

// cleaner cleans devices for one-time use when compute requests it, one after the other. Each request is tried once,
// and answered as long as compute repeats it.
type cleaner struct {
	*state.Core
	queue    []device.ID
	last     map[device.ID]time.Time // time of the last request for each device
	answers  map[string]host.CleanResult
	waiting  []cleanAnswer     // until the journal is written
	failures map[device.ID]int // failed cleanings of a device
	cleaning *device.ID        // CleanDevice is in progress
	asked    time.Time         // of the request that cleaning answers
}

// cleanAnswer is an answer that may be reported when a number of entries of the journal are written.
type cleanAnswer struct {
	result host.CleanResult
	after  int
}

// receive queues compute's requests.
func (c *cleaner) receive(list []host.CleanRequest) {
	maps.DeleteFunc(c.answers, func(at string, answer host.CleanResult) bool {
		return !slices.ContainsFunc(list, func(r host.CleanRequest) bool {
			return r.Address == at && r.Asked.Equal(answer.Asked)
		})
	})
	for _, r := range list {
		at, err := device.ParseID(r.Address)
		if err != nil {
			c.Condition(condition.Clean, r.Address, fmt.Sprintf("device %q is not cleaned: it is not a PCI address; request it "+
				"again with an address of `berth device list`", r.Address))
			continue
		}
		if !c.last[at].Equal(r.Asked) {
			c.last[at], c.queue = r.Asked, append(c.queue, at)
		}
	}
}

// advance begins the next cleaning, and releases the answers whose entries are in the journal. A request that cannot
// be met is answered at once.
func (c *cleaner) advance() {
	for c.cleaning == nil && len(c.queue) > 0 {
		at := c.queue[0]
		c.queue, c.asked = c.queue[1:], c.last[at]
		if err := c.check(at); err != nil {
			c.answer(at, err)
			continue
		}
		c.cleaning = &at
		c.Do(state.CleanDevice{Device: at})
	}
	for len(c.waiting) > 0 && c.waiting[0].after <= c.Written {
		c.answers[c.waiting[0].result.Address] = c.waiting[0].result
		c.waiting = c.waiting[1:]
		c.ReportChanged()
	}
}

// ended makes the device available again. A device that cannot be cleaned stays reserved, and a condition gives the
// reason.
func (c *cleaner) ended(err error) {
	if c.cleaning == nil {
		return
	}
	at := *c.cleaning
	c.cleaning = nil
	if err != nil {
		c.failures[at]++
		c.Condition(condition.Clean, at.String(),
			fmt.Sprintf("%s cannot be cleaned and stays out of use (failed %d times since the agent began): %s",
				at, c.failures[at], fault.TextOf(err)))
	} else if err = c.check(at); err == nil { // the device may have changed meanwhile
		use := c.State.Spent()[at]
		c.Record(journal.Used(at, journal.Spent{Provider: use.Provider, Returning: true}))
		c.Set = c.Set.Spend(at, false)
		c.Condition(condition.Clean, at.String())
		c.Log("one-time-use device cleaned", "address", at.String())
		c.WantSync = true
	}
	c.answer(at, err)
}

// check returns why a device must not or need not be cleaned.
func (c *cleaner) check(at device.ID) error {
	e, there := c.Set.At(at)
	switch {
	case !there:
		return fault.New(fault.NotFound, "host %s offers no device %s", c.Config.Host, at)
	case e.Holder != "":
		return fault.New(fault.Conflict, "%s is held by server %s; it can be cleaned when the server is gone", at,
			e.Holder)
	case !c.IsSpent(e):
		return fault.New(fault.Conflict, "%s has not been used; there is nothing to clean", at)
	}
	return nil
}

// answer keeps the answer to the request in progress, for the host report.
func (c *cleaner) answer(at device.ID, err error) {
	result := host.CleanResult{Address: at.String(), Asked: c.asked}
	if err != nil {
		c.Warn("device cleaning failed", "address", at.String(), "error", err)
		result.Refused = fault.TextOf(err)
	}
	c.waiting = append(c.waiting, cleanAnswer{result, c.Recorded})
}

// results lists the answers, by address.
func (c *cleaner) results() (list []host.CleanResult) {
	for _, at := range slices.Sorted(maps.Keys(c.answers)) {
		list = append(list, c.answers[at])
	}
	return list
}

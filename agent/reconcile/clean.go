package reconcile

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// cleaner cleans devices for one-time use when compute requests it, one after the other. Each request is tried once,
// and answered as long as compute repeats it.
type cleaner struct {
	*core
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
func (l *cleaner) receive(list []host.CleanRequest) {
	maps.DeleteFunc(l.answers, func(at string, answer host.CleanResult) bool {
		return !slices.ContainsFunc(list, func(r host.CleanRequest) bool {
			return r.Address == at && r.Asked.Equal(answer.Asked)
		})
	})
	for _, r := range list {
		at, err := device.ParseID(r.Address)
		if err != nil {
			l.condition("clean "+r.Address, fmt.Sprintf("device %q is not cleaned: it is not a PCI address; request it again "+
				"with an address of `berth device list`", r.Address))
			continue
		}
		if !l.last[at].Equal(r.Asked) {
			l.last[at], l.queue = r.Asked, append(l.queue, at)
		}
	}
}

// advance begins the next cleaning, and releases the answers whose entries are in the journal. A request that cannot
// be met is answered at once.
func (l *cleaner) advance() {
	for l.cleaning == nil && len(l.queue) > 0 {
		at := l.queue[0]
		l.queue, l.asked = l.queue[1:], l.last[at]
		if err := l.check(at); err != nil {
			l.answer(at, err)
			continue
		}
		l.cleaning = &at
		l.do(CleanDevice{Device: at})
	}
	for len(l.waiting) > 0 && l.waiting[0].after <= l.written {
		l.answers[l.waiting[0].result.Address] = l.waiting[0].result
		l.waiting = l.waiting[1:]
		l.reportChanged()
	}
}

// ended makes the device available again. A device that cannot be cleaned stays reserved, and a condition gives the
// reason.
func (l *cleaner) ended(err error) {
	if l.cleaning == nil {
		return
	}
	at := *l.cleaning
	l.cleaning = nil
	if err != nil {
		l.failures[at]++
		l.condition("clean "+at.String(),
			fmt.Sprintf("%s cannot be cleaned and stays out of use (failed %d times since the agent began): %s",
				at, l.failures[at], fault.TextOf(err)))
	} else if err = l.check(at); err == nil { // the device may have changed meanwhile
		mark := l.state.Spent()[at]
		l.record(journal.Used(at, journal.Spent{Provider: mark.Provider, Returning: true}))
		l.set = l.set.Spend(at, false)
		l.condition("clean " + at.String())
		l.log("one-time-use device cleaned", "address", at.String())
		l.wantSync = true
	}
	l.answer(at, err)
}

// check returns why a device must not or need not be cleaned.
func (l *cleaner) check(at device.ID) error {
	const op = "reconcile.clean"
	e, there := l.set.At(at)
	switch {
	case !there:
		return fault.New(fault.NotFound, op, "host %s offers no device %s", l.config.Host, at)
	case e.Holder != "":
		return fault.New(fault.Conflict, op, "%s is held by server %s; it can be cleaned when the server is gone", at,
			e.Holder)
	case !l.isSpent(e):
		return fault.New(fault.Conflict, op, "%s has not been used; there is nothing to clean", at)
	}
	return nil
}

// answer keeps the answer to the request in progress, for the host report.
func (l *cleaner) answer(at device.ID, err error) {
	result := host.CleanResult{Address: at.String(), Asked: l.asked}
	if err != nil {
		l.warn("device cleaning failed", "address", at.String(), "error", err)
		result.Refused = fault.TextOf(err)
	}
	l.waiting = append(l.waiting, cleanAnswer{result, l.recorded})
}

// results lists the answers, by address.
func (l *cleaner) results() (list []host.CleanResult) {
	for _, at := range slices.Sorted(maps.Keys(l.answers)) {
		list = append(list, l.answers[at])
	}
	return list
}

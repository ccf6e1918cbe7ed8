package reconcile

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/fault"
)

// leavingIDs lists the entries to remove, by id: those that compute has named for removal and not yet confirmed as
// gone; those that the assignments do not mention and whose guest was never built; guests that appear after their
// server was removed; and the new ids of unfinished renames that no other work finishes, because work under the former
// id waits for them.
func (c *core) leavingIDs() []string {
	out := map[string]bool{}
	for id, r := range c.assignments.remove {
		if at, reported := c.reportedRemovals[id]; !reported || at != c.assignments.version(r) {
			out[id] = true
		}
	}
	for id := range c.state.All() {
		_, wanted := c.assignments.servers[id]
		_, named := c.assignments.remove[id]
		_, built := c.state.Built(id)
		built = built && !isReplaced(c, id)
		if _, exists := c.guests[id]; !wanted && !named && !exists && !built && !c.formerName(id) {
			out[id] = true
		}
	}
	for id := range c.guests {
		if isLate(c, id) {
			out[id] = true
		}
	}
	for id, r := range c.state.Renames() {
		if !r.Done && !c.assigned(id) && c.assignments.servers[r.Was].PreviousID != id {
			out[id] = true
		}
	}
	return slices.Sorted(maps.Keys(out))
}

// isReplaced reports whether another guest runs with a device that the journal gives to a server: then the journal is
// an old one, and the guest of the server does not exist.
func isReplaced(c *core, id string) bool {
	return slices.ContainsFunc(c.conflicts, func(d claimConflict) bool { return d.server == id })
}

// leavingHolders lists the holders whose devices are about to be freed.
func (c *core) leavingHolders() []string {
	leaving := map[string]bool{}
	for _, id := range c.leavingIDs() {
		leaving[id] = true
	}
	var list []string
	for _, h := range c.set.Holders() {
		_, failed := c.unreportedFailures[string(h)]
		if failed || leaving[string(h)] || c.formerName(string(h)) {
			list = append(list, string(h))
		}
	}
	return list
}

// claimTimeout is the maximum wait of a server for others to free its devices.
const claimTimeout = 2 * time.Minute

// waitFor returns Unavailable when a refused claim should wait for holders that are leaving since a time; nil when
// there are none or the claim has waited for claimTimeout.
func (c *core) waitFor(refusal device.Refusal, since time.Time) error {
	leaving := c.leavingHolders()
	if len(leaving) == 0 || c.now.Sub(since) >= claimTimeout {
		return nil
	}
	return fault.New(fault.Unavailable, "%s; waiting for %s to leave", refusal,
		strings.Join(leaving, ", "))
}

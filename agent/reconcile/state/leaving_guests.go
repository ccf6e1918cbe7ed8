package state

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/fault"
)

// LeavingIDs lists the entries to remove, by id: those that compute has named for removal and not yet confirmed as
// gone; those that the assignments do not mention and whose guest was never built; guests that appear after their
// server was removed; and the new ids of unfinished renames that no other work finishes, because work under the former
// id waits for them.
func (c *Core) LeavingIDs() []string {
	out := map[string]bool{}
	for id, r := range c.Assignments.Remove {
		if at, reported := c.ReportedRemovals[id]; !reported || at != c.Assignments.Version(r) {
			out[id] = true
		}
	}
	for id := range c.State.All() {
		_, wanted := c.Assignments.Servers[id]
		_, named := c.Assignments.Remove[id]
		_, built := c.State.Built(id)
		built = built && !IsReplaced(c, id)
		if _, exists := c.Guests[id]; !wanted && !named && !exists && !built && !c.formerName(id) {
			out[id] = true
		}
	}
	for id := range c.Guests {
		if IsLate(c, id) {
			out[id] = true
		}
	}
	for id, r := range c.State.Renames() {
		if !r.Done && !c.Assigned(id) && c.Assignments.Servers[r.Was].PreviousID != id {
			out[id] = true
		}
	}
	return slices.Sorted(maps.Keys(out))
}

// IsReplaced reports whether another guest runs with a device that the journal gives to a server: then the journal is
// an old one, and the guest of the server does not exist.
func IsReplaced(c *Core, id string) bool {
	return slices.ContainsFunc(c.Conflicts, func(d ClaimConflict) bool { return d.Server == id })
}

// leavingHolders lists the holders whose devices are about to be freed.
func (c *Core) leavingHolders() []string {
	leaving := map[string]bool{}
	for _, id := range c.LeavingIDs() {
		leaving[id] = true
	}
	var list []string
	for _, h := range c.Set.Holders() {
		_, failed := c.UnreportedFailures[string(h)]
		if failed || leaving[string(h)] || c.formerName(string(h)) {
			list = append(list, string(h))
		}
	}
	return list
}

// claimTimeout is the maximum wait of a server for others to free its devices.
const claimTimeout = 2 * time.Minute

// WaitFor returns Unavailable when a refused claim should wait for holders that are leaving since a time; nil when
// there are none or the claim has waited for claimTimeout.
func (c *Core) WaitFor(refusal device.Refusal, since time.Time) error {
	leaving := c.leavingHolders()
	if len(leaving) == 0 || c.Now.Sub(since) >= claimTimeout {
		return nil
	}
	return fault.New(fault.Unavailable, "%s; waiting for %s to leave", refusal,
		strings.Join(leaving, ", "))
}

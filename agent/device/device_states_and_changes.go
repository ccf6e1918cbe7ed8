package device

import (
	"fmt"
)

// State is the state of a device, in Nova's words.
type State string

// The states.
const (
	Available   State = "available"   // free
	Claimed     State = "claimed"     // held by a server whose guest is being built
	Allocated   State = "allocated"   // held by a server whose guest runs
	Unclaimable State = "unclaimable" // free itself, but its PF or one of its VFs is claimed
	Unavailable State = "unavailable" // free itself, but its PF or one of its VFs is allocated
	Removed     State = "removed"     // not offered by the host any more, and no longer in the set
)

// Change is the effect of an operation on one device.
type Change struct {
	ID  ID
	Was State // "" for a new device
	Now State
	Why string // a sentence, or "" when the states suffice
}

// String returns the change in a form for logs.
func (c Change) String() string {
	was := c.Was
	if was == "" {
		was = "new"
	}
	text := fmt.Sprintf("%s: %s, now %s", c.ID, was, c.Now)
	if c.Was == c.Now {
		text = fmt.Sprintf("%s: %s", c.ID, c.Now)
	}
	if c.Why != "" {
		text += ": " + c.Why
	}
	return text
}

package device

import (
	"fmt"

	"github.com/openberth/berth/pci"
)

// Change is the effect of an operation on one device.
type Change struct {
	ID  ID
	Was pci.State // "" for a new device
	Now pci.State
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

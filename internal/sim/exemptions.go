package sim

// exemptions are what a restore or an operator has done since the last rest, and what checks therefore do not expect.
type exemptions struct {
	altered    map[string]bool // servers whose share was taken away
	putBack    map[string]bool // servers whose allocations a restore has changed
	rolledBack map[string]bool // servers whose records a restore has changed
	evacuated  map[string]bool // servers that were evacuated from a host that was out of reach
	// requests of devices of ports that were attached or detached: an agent may try a change again that compute has
	// cancelled
	portChanges map[string]bool
}

func newExemptions() *exemptions {
	return &exemptions{altered: map[string]bool{}, putBack: map[string]bool{}, rolledBack: map[string]bool{},
		evacuated: map[string]bool{}, portChanges: map[string]bool{}}
}

// end ends all exemptions: the cloud is at rest.
func (x *exemptions) end() {
	for _, all := range []map[string]bool{x.altered, x.putBack, x.rolledBack, x.evacuated, x.portChanges} {
		clear(all)
	}
}

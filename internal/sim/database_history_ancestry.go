package sim

// hasParent reports whether the history branched off another one.
func (h history) hasParent() bool { return h.parent != stamp{} }

// branchOff begins a history and returns its number.
func (hs *histories) branchOff(parent stamp) int {
	hs.branches = append(hs.branches, history{parent})
	return len(hs.branches) - 1
}

// precedes reports whether a state of the database was made from an earlier one.
func (hs *histories) precedes(earlier, state stamp) bool {
	if earlier == (stamp{}) {
		return true
	}
	for state.branch != earlier.branch {
		h := hs.branches[state.branch]
		if !h.hasParent() {
			return false
		}
		state = h.parent
	}
	return earlier.seq <= state.seq
}

// checkHistory checks a line that an agent follows: it must not come from a database that lacks what the agent has
// followed before.
func (am *agentModel) checkHistory(m *simHost, d delivery) {
	if !am.compute.precedes(m.disk.followed, d.state) {
		am.violation(m, "follow: the agent follows revision %d of a database that lacks what it has followed: history %d, "+
			"and it has seen %d", d.assignments.Revision, d.state.branch, m.disk.followed.branch)
	}
}

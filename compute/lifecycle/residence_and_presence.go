package lifecycle

// presence is what the server's own consumer has on Host.
type presence int

const (
	absent   presence = iota // holds nothing
	claiming                 // no guest; it may hold a claim, which must be released if it is not needed any more
	claimed                  // holds a claim; the host is not assigned the guest yet
	incoming                 // assigned; the guest arrives by live migration
	building                 // assigned; the agent builds the guest
	existing                 // assigned; the guest exists
	removing                 // not assigned any more; the agent must destroy the guest
)

// presence returns what a server in this state has on its host.
func (s State) presence() presence {
	switch s {
	case Claiming, Rescheduling, Failing, Offloading, DeletingAllocation:
		return claiming
	case AwaitingMinCount, BindingPorts:
		return claimed
	case Spawning:
		return building
	case Active:
		return existing
	case Shelving, DeletingGuest:
		return removing
	}
	return absent
}

// presence returns what the server's own consumer has at the destination.
func (p MovePhase) presence() presence {
	switch p {
	case ClaimingDestination, ReschedulingDestination, ReleasingDestination:
		return claiming
	case StoppingSource, BindingDestination:
		return claimed
	case PreLiveMigration, LiveMigrating:
		return incoming
	case SpawningDestination:
		return building
	case Resized:
		return existing
	case Reverting:
		return removing
	}
	return absent
}

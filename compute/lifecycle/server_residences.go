package lifecycle

import (
	"slices"
)

// Residences lists what the server's consumers may have on hosts.
func (s Server) Residences() []Residence {
	var list []Residence
	if s.AllocatedHost() != "" {
		list = append(list, s.ownResidence())
	}
	if s.Move != nil {
		list = append(list, s.Move.From)
	}
	return append(list, s.Leftovers...)
}

// ownResidence returns the residence of the server's own consumer.
func (s Server) ownResidence() Residence {
	own := Residence{
		Consumer: s.ID, PreviousConsumer: s.PreviousConsumer, Host: s.Host,
		Flavor: s.Flavor, Ask: s.Ask, Requests: s.Requests,
		Devices: s.Devices, Topology: s.Topology, Cells: s.Cells, Ports: s.Ports,
		Reported: s.Reported,
	}
	if len(s.Choices) > 0 {
		own.Choice = &s.Choices[0]
	}
	return own
}

// Shown returns the residence that users see: the source while a move is in progress, otherwise the server's own.
func (s Server) Shown() Residence {
	if s.Move != nil && s.Move.Phase != Resized && s.Move.Phase != Reverting {
		return s.Move.From
	}
	return s.ownResidence()
}

// AllocatedHost returns the host whose devices the server's own consumer may hold, or an empty string. Residences also
// lists the hosts of the other consumers.
func (s Server) AllocatedHost() string {
	if s.presence() < claimed {
		return ""
	}
	return s.Host
}

// ExcludedHosts returns the hosts that must not be chosen, and why: the source of the move, and the hosts of leftovers,
// because a new guest there would get the id of the leftover guest.
func (s Server) ExcludedHosts() map[string]string {
	out := map[string]string{}
	if s.Move != nil && !s.Move.SameHostAllowed {
		out[s.Move.From.Host] = "it is the source of the move"
	}
	for _, l := range s.Leftovers {
		out[l.Host] = "an earlier guest of the server there is not gone yet"
	}
	return out
}

// presence returns what the server's own consumer has on Host.
func (s Server) presence() presence {
	if s.withdraws() {
		return removing
	}
	if s.Move != nil {
		return s.Move.Phase.presence()
	}
	return s.State.presence()
}

// NextLeftover returns the first leftover whose allocations can be released, and whether there is one.
func (s Server) NextLeftover() (Residence, bool) {
	i := slices.IndexFunc(s.Leftovers, func(l Residence) bool { return l.Gone })
	if i < 0 {
		return Residence{}, false
	}
	return s.Leftovers[i], true
}

// withdraws reports whether the guest is to be removed from Host before anything is built, because a port cannot be
// bound there.
func (s Server) withdraws() bool {
	return s.PortsRefused != "" &&
		(s.State == Spawning || s.Phase() == SpawningDestination || s.Phase() == PreLiveMigration)
}

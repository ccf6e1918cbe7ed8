package lifecycle

import (
	"slices"

	"github.com/openberth/berth/compute/schedule"
)

// WithGroup returns the server with what its group requires of its host; nil: nothing. It is not a part of the record:
// the store reads it in each transaction that changes the server, and the scheduler before it chooses hosts.
func (s Server) WithGroup(g *schedule.ServerGroup) Server {
	s.group = g
	return s
}

// ServerGroup returns what WithGroup has set.
func (s Server) ServerGroup() *schedule.ServerGroup { return s.group }

// OnlyHost returns the only host that the server may be placed on, by its move its creation or its server
// group; empty: any.
func (s Server) OnlyHost() string {
	switch {
	case s.Move != nil && s.Move.To != "":
		return s.Move.To
	case s.Move == nil && s.Target != "":
		return s.Target
	}
	return s.group.OnlyHost()
}

// GroupHosts lists the hosts on which the server counts as a member of its group, sorted: where it has its guest, where
// it is being claimed, and during a move the source, to which it may return. Leftovers do not count, nor does a server
// that is shown as deleted: their guests are not used again.
func (s Server) GroupHosts() []string {
	if s.Group == "" || !s.Ended.IsZero() {
		return nil
	}
	hosts := []string{s.AllocatedHost()}
	if len(s.Choices) > 0 && s.choosesHost() {
		hosts = append(hosts, s.Choices[0].Host)
	}
	if s.Move != nil {
		hosts = append(hosts, s.Move.From.Host)
	}
	slices.Sort(hosts)
	return slices.DeleteFunc(slices.Compact(hosts), func(host string) bool { return host == "" })
}

// choosesHost reports whether the server is to be claimed on the host of its first choice.
func (s Server) choosesHost() bool {
	switch s.Phase() {
	case MovingAllocations, AwaitingSourceAck, ClaimingDestination:
		return true
	}
	return s.State == Claiming
}

package lifecycle

import (
	"cmp"
	"slices"

	"github.com/openberth/berth/compute/schedule"
)

// WithGroup returns the server with what its group requires of its host; nil: nothing. It is not a part of the record:
// the store reads it in each transaction that changes the server, and the scheduler before it chooses hosts.
func (s Server) WithGroup(g *schedule.ServerGroup) Server {
	s.group = g
	return s
}

// ServerGroup returns what the group of the server requires of its host, or of the destination of its move; nil:
// nothing.
func (s Server) ServerGroup() *schedule.ServerGroup {
	switch {
	case s.Move == nil:
		return s.group
	case s.Move.Kind == Evacuating:
		return s.group.Evacuating(s.Move.From.Host)
	}
	return s.group.Moving()
}

// OnlyHost returns the only host that the server may be placed on, by its move, its creation, its server group or its
// hints; empty: any.
func (s Server) OnlyHost() string {
	switch {
	case s.Move != nil && s.Move.To != "":
		return s.Move.To
	case s.Move == nil && s.Target != "":
		return s.Target
	}
	return cmp.Or(s.ServerGroup().OnlyHost(), s.hints.OnlyHost())
}

// WithHints returns the server with what its scheduler hints require of its host; nil: nothing. It is not a part of the
// record: the scheduler reads it before it chooses hosts.
func (s Server) WithHints(h *schedule.HostHints) Server {
	s.hints = h
	return s
}

// Hints returns what the scheduler hints of the server require of its host; nil: nothing.
func (s Server) Hints() *schedule.HostHints { return s.hints }

// GroupHosts lists the hosts on which the server counts as a member of its group, sorted: where it has its guest, where
// it is being claimed, and during a move the source, to which it may return. Leftovers do not count, nor does a server
// that is shown as deleted: their guests are not used again.
func (s Server) GroupHosts() []string {
	if s.Group == "" {
		return nil
	}
	return s.UsedHosts()
}

// UsedHosts lists the hosts where the server has its guest, where it is being claimed, and to which it may return from
// a move, sorted; none of a server that is shown as deleted.
func (s Server) UsedHosts() []string {
	if !s.Ended.IsZero() {
		return nil
	}
	hosts := []string{s.AllocatedHost(), s.ClaimedHost()}
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

// ClaimedHost returns the host on which the server is being claimed, before its consumer counts there; empty: none. Its
// zone does not change meanwhile.
func (s Server) ClaimedHost() string {
	if len(s.Choices) > 0 && s.choosesHost() {
		return s.Choices[0].Host
	}
	return ""
}

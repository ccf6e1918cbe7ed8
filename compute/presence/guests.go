package presence

import (
	"slices"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
)

// Conflict is a host whose guests contradict the record of a server.
type Conflict struct {
	Host        string
	NotFollowed bool   // its agent follows newer assignments than the database has; false: it has a guest not placed there
	Guest       string // id of the server's guest there; empty: no guest
}

// Conflicts lists the hosts that contradict the record of a server.
func (a *Agents) Conflicts(s lifecycle.Server) []Conflict {
	a.mu.Lock()
	defer a.mu.Unlock()
	var list []Conflict
	for host, o := range a.inconsistent {
		if s.Contradicts(host, o.behind, o.guests) {
			list = append(list, Conflict{host, o.behind, guestOf(s, o.guests)})
		}
	}
	slices.SortFunc(list, func(a, b Conflict) int { return slices.Compare([]string{a.Host}, []string{b.Host}) })
	return list
}

// GuestsOf returns the guests that a host has reported.
func (a *Agents) GuestsOf(host string) []schedule.Present {
	a.mu.Lock()
	defer a.mu.Unlock()
	if o := a.hosts[host]; o != nil {
		return o.guests
	}
	return nil
}

// MayHave reports whether a host may have the guest of a server's own consumer: it has reported the guest, or it has
// not reported to this process. Then its guests are not known, because the database may have been restored from a
// backup before this process started.
func (a *Agents) MayHave(host, server string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	o := a.hosts[host]
	if o == nil || !o.reported {
		return !a.young[server]
	}
	return slices.ContainsFunc(o.guests, func(g schedule.Present) bool { return g.ID == server })
}

// guestOf returns the id of a guest of the server among those of a host, or the server's id if there is none.
func guestOf(s lifecycle.Server, guests []schedule.Present) string {
	for _, g := range guests {
		if g.Server == s.ID {
			return g.ID
		}
	}
	return s.ID
}

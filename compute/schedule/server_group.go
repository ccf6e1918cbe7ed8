package schedule

import (
	"fmt"
	"maps"
	"slices"
)

// GroupPolicy is the policy of a server group, as the Compute API names it.
type GroupPolicy string

// The policies. The soft ones only order the hosts.
const (
	Affinity         GroupPolicy = "affinity"
	AntiAffinity     GroupPolicy = "anti-affinity"
	SoftAffinity     GroupPolicy = "soft-affinity"
	SoftAntiAffinity GroupPolicy = "soft-anti-affinity"
)

// GroupPolicies lists all policies.
func GroupPolicies() []GroupPolicy {
	return []GroupPolicy{Affinity, AntiAffinity, SoftAffinity, SoftAntiAffinity}
}

// The filters of server groups.
const (
	FilterAffinity     Filter = "ServerGroupAffinityFilter"
	FilterAntiAffinity Filter = "ServerGroupAntiAffinityFilter"
)

// ServerGroup is what the group of a server requires of its host: the policy, and where the other members are. A nil
// *ServerGroup requires nothing.
type ServerGroup struct {
	ID         string
	Policy     GroupPolicy
	MaxPerHost int            // of AntiAffinity: how many members one host may have
	Others     map[string]int // by host: how many other members are there, come there, or may return there
	Dead       []string       // hosts that an operator has declared dead; only of use for an evacuation
	moving     bool           // the server has a host already
}

// Moving returns what the group requires of the destination of a server that has a host. With Affinity the destination
// may be each host of another member, so that members that are apart can be brought together again.
func (g *ServerGroup) Moving() *ServerGroup {
	if g == nil || g.Policy != Affinity {
		return g
	}
	after := *g
	after.moving = true
	return &after
}

// Evacuating is Moving for a server that is evacuated from a host. With Affinity, members on that host or on a dead one
// do not count: they must be evacuated too. The first member that gets another host decides where the others go.
func (g *ServerGroup) Evacuating(from string) *ServerGroup {
	after := g.Moving()
	if after != g {
		after.Others = maps.Clone(g.Others)
		maps.DeleteFunc(after.Others, func(host string, _ int) bool {
			return host == from || slices.Contains(g.Dead, host)
		})
	}
	return after
}

// Refuse returns why the server must not be on a host; the reason is empty if it may.
func (g *ServerGroup) Refuse(host string) (filter Filter, reason string) {
	switch {
	case g == nil || len(g.Others) == 0:
	case g.Policy == AntiAffinity && g.Others[host] >= max(g.MaxPerHost, 1):
		return FilterAntiAffinity, fmt.Sprintf("server group %s has the policy anti-affinity, and the host has %d of its "+
			"members already", g.ID, g.Others[host])
	case g.Policy == Affinity && len(g.Others) > 1 && !g.moving:
		return FilterAffinity, fmt.Sprintf("server group %s has the policy affinity, and its members are on several "+
			"hosts; wait until their moves end, or move them to one host", g.ID)
	case g.Policy == Affinity && g.Others[host] == 0:
		return FilterAffinity, fmt.Sprintf("server group %s has the policy affinity, and its members are on other hosts",
			g.ID)
	}
	return "", ""
}

// OnlyHost returns the only host that the policy permits; empty: there is no such restriction.
func (g *ServerGroup) OnlyHost() string {
	if g != nil && g.Policy == Affinity && len(g.Others) == 1 {
		for host := range g.Others {
			return host
		}
	}
	return ""
}

// RatesHosts reports whether the policy orders hosts, so that the best one is found only among all of them.
func (g *ServerGroup) RatesHosts() bool {
	return g != nil && len(g.Others) > 0 && slices.Contains([]GroupPolicy{SoftAffinity, SoftAntiAffinity}, g.Policy)
}

// rank returns the place of a host in the order of a soft policy; the least is the best.
func (g *ServerGroup) rank(host string) int {
	switch {
	case !g.RatesHosts():
		return 0
	case g.Policy == SoftAffinity:
		return -g.Others[host]
	}
	return g.Others[host]
}

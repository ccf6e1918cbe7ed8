package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
)

// groupFor returns the server group of a request whose name has this number; empty: none. Few requests are in one
// group, because there are few hosts.
func (k *kernel) groupFor(number int) string {
	policies := []schedule.GroupPolicy{schedule.AntiAffinity, schedule.Affinity}
	if n := number % 4; k.options.Groups && n < len(policies) {
		return fmt.Sprintf("%s/%d", policies[n], number/96)
	}
	return ""
}

// GroupOf returns what the group of a server requires of its host.
func (s *store) GroupOf(_ context.Context, server lifecycle.Server) (group *schedule.ServerGroup, err error) {
	err = s.do(func() error { group = s.groupOf(server); return nil })
	return group, err
}

// HostAggregates returns nothing: the hosts are in no aggregates.
func (s *store) HostAggregates(context.Context) (map[string][]schedule.Aggregate, error) {
	return nil, nil
}

// groupOf returns what the group of a server requires of its host; nil: it is in none.
func (db *database) groupOf(server lifecycle.Server) *schedule.ServerGroup {
	policy, _, in := strings.Cut(server.Group, "/")
	if !in {
		return nil
	}
	g := &schedule.ServerGroup{ID: server.Group, Policy: schedule.GroupPolicy(policy), Others: map[string]int{},
		Dead: db.dead}
	for id, other := range db.servers {
		if other.Group != server.Group || id == server.ID {
			continue
		}
		for _, host := range other.GroupHosts() {
			g.Others[host]++
		}
	}
	return g
}

// besideOthers is counted in Report.Happened: a server got a host while others of its group had one.
const besideOthers = "host beside others of the group"

// brokenPolicy returns how a server that gets a host breaks the policy of its group; empty: it does not. others is true
// if it gets one while others of the group have one.
func (db *database) brokenPolicy(before, now lifecycle.Server) (others bool, broken string) {
	group, was := now.WithGroup(db.groupOf(now)).ServerGroup(), before.GroupHosts()
	for _, host := range now.GroupHosts() {
		if slices.Contains(was, host) || len(group.Others) == 0 {
			continue
		}
		others = true
		if together := group.Others[host] > 0; together == (group.Policy == schedule.AntiAffinity) {
			broken = fmt.Sprintf("%s gets %s in group %s, whose other members are on %v", now.ID, host, group.ID,
				slices.Sorted(maps.Keys(group.Others)))
		}
	}
	return others, broken
}

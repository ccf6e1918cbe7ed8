package candidates

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/openberth/berth/api/host"
	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/hosttree"
	"github.com/openberth/berth/placement/headroom"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/server/request"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// headroomTimeout is how long a count may run. A count of ten thousand hosts takes about a second of processor time.
const headroomTimeout = 20 * time.Second

// showHeadroom handles GET /berth/v1/headroom: how often a query for candidates could be claimed. Hosts whose compute
// service is disabled are not counted, and those that the query excludes.
func showHeadroom(c *request.Call) error {
	c.Microversion = api.Latest // the query is that of the newest microversion
	values, err := c.Query()
	if err != nil {
		return err
	}
	named := values[api.KeyExclude]
	values.Del(api.KeyExclude)
	ask, snapshot, unknown, err := parseCandidates(c, values)
	if err = cmp.Or(unknown, err); err != nil {
		return err
	}
	began, clock := c.Service.Now(), newSearchClock(c, new(time.Duration))
	clock.limit = headroomTimeout
	hosts := countedHosts(snapshot, named)
	cloud := headroom.Cloud{Excluded: map[string]bool{}, Stop: clock.expired,
		Rows: index.RowsWith(snapshot, ask.Total().Sorted(), append(headroom.Traits(ask), index.Sharing))}
	for _, h := range hosts {
		cloud.Excluded[h.Host] = h.Excluded != ""
	}
	counted := cloud.Count(ask)
	c.Service.Log.Debug("headroom counted", "request_id", c.ID, "fits", counted.Fits, "took",
		c.Service.Now().Sub(began))
	if err := clock.err(); err != nil {
		return err
	}
	c.SetModified(time.Time{})
	return c.SendJSON(http.StatusOK, headroomDoc(counted, hosts, snapshot))
}

// countedHosts returns all hosts by name, with the reason why a host is not counted.
func countedHosts(snapshot *index.Snapshot, named []string) (hosts []host.HostHeadroom) {
	disabled := snapshot.Trait(hosttree.StatusDisabled)
	sharing, excluded := snapshot.Trait(index.Sharing), map[string]bool{}
	for _, name := range named {
		excluded[name] = true
	}
	for t := range snapshot.Trees() {
		top := t.Top()
		if top == nil || top.HasTrait(sharing) {
			continue
		}
		h := host.HostHeadroom{Host: top.Name, Exact: true, Lacks: []string{}}
		switch {
		case top.HasTrait(disabled):
			h.Excluded = "it has the trait " + string(hosttree.StatusDisabled)
		case excluded[top.Name]:
			h.Excluded = "the query excludes it"
		}
		hosts = append(hosts, h)
	}
	slices.SortFunc(hosts, func(a, b host.HostHeadroom) int { return cmp.Compare(a.Host, b.Host) })
	return hosts
}

// headroomDoc returns the answer: the count with the sums of aggregates, and the hosts that are not counted.
func headroomDoc(of headroom.Result, hosts []host.HostHeadroom, snapshot *index.Snapshot) api.Headroom {
	out := api.Headroom{Headroom: host.Headroom{Fits: of.Fits, Exact: of.Exact, Reason: of.Reason,
		RunsOut: []host.RunsOut{}, ByHost: []host.HostHeadroom{}}, Shared: of.Shared, NoRoom: []string{}}
	for _, one := range of.RunsOut {
		out.RunsOut = append(out.RunsOut, host.RunsOut{Class: string(one.Class), Hosts: one.Hosts})
	}
	listed := map[string]bool{}
	for _, h := range of.Hosts {
		lacks := []string{}
		for _, class := range h.Lacks {
			lacks = append(lacks, string(class))
		}
		out.ByHost = append(out.ByHost, host.HostHeadroom{Host: h.Name, Fits: h.Fits, Exact: of.Exact, Lacks: lacks})
		listed[h.Name] = true
	}
	for _, h := range hosts {
		switch {
		case h.Excluded != "":
			out.ByHost = append(out.ByHost, h)
		case !listed[h.Host]:
			out.NoRoom = append(out.NoRoom, h.Host)
		}
	}
	out.Aggregates = byAggregate(of.Hosts, snapshot)
	return out
}

// byAggregate adds up the hosts of each aggregate, those with most room first.
func byAggregate(hosts []headroom.Host, snapshot *index.Snapshot) []api.AggregateHeadroom {
	sums := map[resource.AggregateID]api.AggregateHeadroom{}
	for _, h := range hosts {
		for _, id := range aggregatesOf(snapshot, h.Root) {
			sum := sums[id]
			sum.Aggregate = id
			if sum.Fits += h.Fits; h.Fits > 0 {
				sum.Room++
			}
			sums[id] = sum
		}
	}
	return slices.SortedFunc(maps.Values(sums), func(a, b api.AggregateHeadroom) int {
		return cmp.Or(cmp.Compare(b.Fits, a.Fits), cmp.Compare(a.Aggregate, b.Aggregate))
	})
}

// aggregatesOf returns the aggregates of a provider.
func aggregatesOf(snapshot *index.Snapshot, id provider.ID) []resource.AggregateID {
	row, _ := snapshot.Row(id)
	return row.Aggregates
}

package server

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/openberth/berth/api/host"
	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/hosttree"
	"github.com/openberth/berth/placement/headroom"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// headroomTimeout is how long a count may run. A count of ten thousand hosts takes about a second of processor time.
const headroomTimeout = 20 * time.Second

// headroom handles GET /berth/v1/headroom: how often a query for candidates could be claimed. Hosts whose compute
// service is disabled are not counted.
func (c *call) headroom() error {
	c.version = api.Latest // the query is that of the newest microversion
	ask, snapshot, unknown, err := c.parseCandidateQuery()
	if err = cmp.Or(unknown, err); err != nil {
		return err
	}
	began, clock := c.server.now(), c.newSearchClock(new(time.Duration))
	clock.limit = headroomTimeout
	cloud := headroom.Cloud{Excluded: map[string]bool{}, Stop: clock.expired,
		Rows: index.RowsWith(snapshot, ask.Total().Sorted(), append(headroom.Traits(ask), index.Sharing))}
	disabled := disabledHosts(snapshot)
	for _, name := range disabled {
		cloud.Excluded[name] = true
	}
	counted := cloud.Count(ask)
	c.server.opts.Log.Debug("headroom counted", "request_id", c.ID, "fits", counted.Fits, "took",
		c.server.now().Sub(began))
	if err := clock.err(); err != nil {
		return err
	}
	c.setModified(time.Time{})
	return c.sendJSON(http.StatusOK, headroomDoc(counted, disabled, snapshot))
}

// disabledHosts returns the names of the hosts whose compute service is disabled, sorted.
func disabledHosts(snapshot *index.Snapshot) (names []string) {
	for t := range snapshot.WithTrait(snapshot.Trait(hosttree.StatusDisabled)).All() {
		if top := t.Top(); top != nil && top.HasTrait(snapshot.Trait(hosttree.StatusDisabled)) &&
			!top.HasTrait(snapshot.Trait(index.Sharing)) {
			names = append(names, top.Name)
		}
	}
	slices.Sort(names)
	return names
}

// headroomDoc returns the answer: the count with the sums of aggregates, and the hosts that are not counted.
func headroomDoc(of headroom.Result, disabled []string, snapshot *index.Snapshot) api.Headroom {
	out := api.Headroom{Headroom: host.Headroom{Fits: of.Fits, Exact: of.Exact, Reason: of.Reason,
		RunsOut: []host.RunsOut{}, ByHost: []host.HostHeadroom{}}, Shared: of.Shared,
		Aggregates: []api.AggregateHeadroom{}}
	for _, one := range of.RunsOut {
		out.RunsOut = append(out.RunsOut, host.RunsOut{Class: string(one.Class), Hosts: one.Hosts})
	}
	sums := map[resource.AggregateID]*api.AggregateHeadroom{}
	for _, h := range of.Hosts {
		lacks := []string{}
		for _, class := range h.Lacks {
			lacks = append(lacks, string(class))
		}
		out.ByHost = append(out.ByHost, host.HostHeadroom{Host: h.Name, Fits: h.Fits, Exact: of.Exact, Lacks: lacks})
		for _, id := range aggregatesOf(snapshot, h.Root) {
			if sums[id] == nil {
				sums[id] = &api.AggregateHeadroom{Aggregate: id}
			}
			if sums[id].Fits += h.Fits; h.Fits > 0 {
				sums[id].Room++
			}
		}
	}
	for _, name := range disabled {
		out.ByHost = append(out.ByHost, host.HostHeadroom{Host: name, Exact: true, Lacks: []string{},
			Excluded: "it has the trait " + string(hosttree.StatusDisabled)})
	}
	for _, sum := range sums {
		out.Aggregates = append(out.Aggregates, *sum)
	}
	slices.SortFunc(out.Aggregates, func(a, b api.AggregateHeadroom) int {
		return cmp.Or(cmp.Compare(b.Fits, a.Fits), cmp.Compare(a.Aggregate, b.Aggregate))
	})
	return out
}

// aggregatesOf returns the aggregates of a provider.
func aggregatesOf(snapshot *index.Snapshot, id provider.ID) []resource.AggregateID {
	row, _ := snapshot.Row(id)
	return row.Aggregates
}

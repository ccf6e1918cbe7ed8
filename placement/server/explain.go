package server

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"time"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/explain"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/resource"
)

// explanation returns why there are no candidates.
func (c *call) explanation(snapshot *index.Snapshot, ask resource.Ask) (explain.Explanation, error) {
	began, clock := c.server.now(), c.newSearchClock(new(time.Duration))
	why := explain.Why(snapshot, ask, clock.expired)
	took := c.server.now().Sub(began)
	c.server.metrics.Explain(took)
	c.server.log.Debug("candidates explained", "request_id", c.ID, "reason", why.Reason, "took", took)
	return why, clock.err() // an explanation that was stopped is not usable
}

// explain handles GET /berth/v1/explain: it answers why a query for candidates finds none. The reason is empty if it
// finds some.
func (c *call) explain() error {
	c.version = api.Latest // the query is that of the newest microversion
	ask, snapshot, unknown, err := c.parseCandidateQuery()
	if err = cmp.Or(unknown, err); err != nil {
		return err
	}
	why, err := c.explanation(snapshot, ask)
	if err != nil {
		return err
	}
	answer, err := c.explanationDocument(snapshot, why, true)
	if err != nil {
		return err
	}
	return c.sendJSON(http.StatusOK, answer)
}

// explanationDocument returns an explanation as the API has it; with holders with those who hold what is missing.
func (c *call) explanationDocument(snapshot *index.Snapshot, why explain.Explanation, holders bool) (
	answer api.Explanation, err error) {
	answer = api.Explanation{Reason: why.Reason, Funnel: []api.ExplainFunnelRow{},
		Minimal: append([]string{}, why.Minimal...), Rough: why.Rough, Help: api.ExplainHelp(why.Help),
		Nearest: []api.ExplainNearestMiss{}}
	for _, step := range why.Funnel {
		answer.Funnel = append(answer.Funnel, api.ExplainFunnelRow(step))
	}
	for _, m := range why.Nearest {
		miss := api.ExplainNearestMiss{Root: m.Root, Host: m.Host, Deficits: []api.ExplainDeficit{}}
		for _, d := range m.Deficits {
			var held []api.ExplainHolder
			if holders {
				if held, err = c.deficitHolders(snapshot, d); err != nil {
					return answer, err
				}
			}
			miss.Deficits = append(miss.Deficits, api.ExplainDeficit{Class: d.Class, Cause: string(d.Cause),
				Asks: d.Asks, Free: d.Free, Of: d.Of, Text: d.String(), HeldBy: held})
		}
		answer.Nearest = append(answer.Nearest, miss)
	}
	return answer, nil
}

// maxHolders is how many consumers of one provider an explanation names.
const maxHolders = 8

// deficitHolders returns the consumers that hold the missing resources, if the caller may read allocations.
func (c *call) deficitHolders(snapshot *index.Snapshot, d explain.Deficit) (held []api.ExplainHolder, err error) {
	const rule = "placement:resource_providers:allocations:list"
	if may, _ := c.Allowed(rule, c.target(rule)); !may {
		return nil, nil
	}
	for _, id := range d.Taken {
		all, err := c.server.store.ProviderAllocations(c.Context(), id)
		if fault.Is(err, fault.NotFound) {
			continue // deleted in the meantime
		}
		if err != nil {
			return nil, err
		}
		holder := api.ExplainHolder{Provider: id}
		if at, known := snapshot.Find(id); known {
			holder.Name = at.Node().Name
		}
		for _, consumer := range slices.Sorted(maps.Keys(all.Shares)) {
			if all.Shares[consumer].Amounts[d.Class] > 0 && len(holder.Consumers) < maxHolders {
				holder.Consumers = append(holder.Consumers, consumer)
			}
		}
		if len(holder.Consumers) > 0 {
			held = append(held, holder)
		}
	}
	return held, nil
}

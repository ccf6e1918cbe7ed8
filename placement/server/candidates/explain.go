package candidates

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
	"github.com/openberth/berth/placement/server/request"
	"github.com/openberth/berth/resource"
)

// explanationOf returns why there are no candidates.
func explanationOf(c *request.Call, snapshot *index.Snapshot, ask resource.Ask) (explain.Explanation, error) {
	began, clock := c.Service.Now(), newSearchClock(c, new(time.Duration))
	why := explain.Why(snapshot, ask, clock.expired)
	took := c.Service.Now().Sub(began)
	c.Service.Metrics.Explain(took)
	c.Service.Log.Debug("candidates explained", "request_id", c.ID, "reason", why.Reason, "took", took)
	return why, clock.err() // an explanation that was stopped is not usable
}

// showExplanation handles GET /berth/v1/explain: it answers why a query for candidates finds none. The reason is empty
// if it finds some.
func showExplanation(c *request.Call) error {
	c.Microversion = api.Latest // the query is that of the newest microversion
	ask, snapshot, unknown, err := parseCandidateQuery(c)
	if err = cmp.Or(unknown, err); err != nil {
		return err
	}
	why, err := explanationOf(c, snapshot, ask)
	if err != nil {
		return err
	}
	answer, err := explanationDocument(c, snapshot, why, true)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, answer)
}

// explanationDocument returns an explanation as the API has it; with holders with those who hold what is missing.
func explanationDocument(c *request.Call, snapshot *index.Snapshot, why explain.Explanation, holders bool) (
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
				if held, err = deficitHolders(c, snapshot, d); err != nil {
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
func deficitHolders(c *request.Call, snapshot *index.Snapshot, d explain.Deficit) (held []api.ExplainHolder,
	err error) {
	const rule = "placement:resource_providers:allocations:list"
	if may, _ := c.Allowed(rule, c.Target(rule)); !may {
		return nil, nil
	}
	for _, id := range d.Taken {
		all, err := c.Service.Store.ProviderAllocations(c.Context(), id)
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

package placement

import (
	"context"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Explanation is the answer of Berth's own GET /berth/v1/explain: why a query finds no candidates. Reason is empty if
// the query finds some.
type Explanation struct {
	Reason  string               `json:"reason"`          // one line
	Funnel  []ExplainFunnelRow   `json:"funnel"`          // how many hosts remain after each further clause
	Minimal []string             `json:"minimal"`         // the clauses that no host can satisfy together
	Rough   bool                 `json:"rough,omitempty"` // Minimal may contain unnecessary clauses
	Help    ExplainHelp          `json:"help,omitzero"`   // the clause without which most hosts have a candidate
	Nearest []ExplainNearestMiss `json:"nearest"`         // the hosts that lack the least
}

// ExplainFunnelRow is one clause of the funnel, and the number of hosts left after it.
type ExplainFunnelRow struct {
	Clause  string   `json:"clause"`
	Left    int      `json:"left"`
	Removed []string `json:"removed_hosts,omitempty"` // names of hosts that the clause removes, at most 20
}

// ExplainHelp is the clause without which most hosts have a candidate. Clause is empty if no single one is enough.
type ExplainHelp struct {
	Clause string `json:"clause"`
	Hosts  int    `json:"hosts"`
}

// ExplainNearestMiss is one of the nearest hosts, and what it lacks.
type ExplainNearestMiss struct {
	Root     provider.ID      `json:"root_provider_uuid"`
	Host     string           `json:"host"`
	Deficits []ExplainDeficit `json:"deficits"`
}

// ExplainDeficit is what one host lacks of one class. Cause is absent, held, reserved, excluded, forbidden, small,
// shape or contended.
type ExplainDeficit struct {
	Class resource.Class `json:"resource_class"`
	Cause string         `json:"cause"`
	Asks  int            `json:"asks"`
	Free  int            `json:"free"`
	Of    int            `json:"of"`
	Text  string         `json:"text"` // the deficit as a sentence

	// HeldBy lists a few of the providers that are in use, if the caller may read their allocations.
	HeldBy []ExplainHolder `json:"held_by,omitempty"`
}

// ExplainHolder lists consumers with allocations on a provider.
type ExplainHolder struct {
	Provider  provider.ID           `json:"resource_provider_uuid"`
	Name      string                `json:"name"` // of the provider
	Consumers []resource.ConsumerID `json:"consumer_uuids"`
}

// Explain returns why there are no candidates for an ask. Another Placement than Berth's answers with fault.NotFound.
func (c *Client) Explain(ctx context.Context, ask resource.Ask) (Explanation, error) {
	var out Explanation
	_, err := c.REST.Do(ctx, "GET", "/berth/v1/explain?"+AskQuery(ask).Encode(), nil, &out)
	return out, fault.Wrap("", err)
}

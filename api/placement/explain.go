package placement

import (
	"context"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Explanation is the answer of Berth's own GET /berth/v1/explain: why a query for candidates finds nothing. Reason is empty
// when it finds something.
type Explanation struct {
	Reason  string        `json:"reason"`          // one line
	Funnel  []ExplainStep `json:"funnel"`          // how many hosts are left after each clause, one upon the other
	Minimal []string      `json:"minimal"`         // the clauses that cannot hold together
	Rough   bool          `json:"rough,omitempty"` // not all of Minimal may be needed: to find out would have cost too much
	Nearest []ExplainMiss `json:"nearest"`         // the hosts that came closest
}

// ExplainStep is one clause of the funnel.
type ExplainStep struct {
	Clause string `json:"clause"`
	Left   int    `json:"left"`
}

// ExplainMiss is a host that came close, and what it lacks.
type ExplainMiss struct {
	Root     provider.ID      `json:"root_provider_uuid"`
	Host     string           `json:"host"`
	Deficits []ExplainDeficit `json:"deficits"`
}

// ExplainDeficit is what one host lacks of one class. Cause is absent, held, reserved, excluded, forbidden, small, shape or contended.
type ExplainDeficit struct {
	Class  resource.Class  `json:"resource_class"`
	Cause  string          `json:"cause"`
	Asks   int             `json:"asks"`
	Free   int             `json:"free"`
	Of     int             `json:"of"`
	Text   string          `json:"text"`              // all of this, and what else there is to say, for people
	HeldBy []ExplainHolder `json:"held_by,omitempty"` // a few of the providers in question that are in use; for who may read their allocations
}

// ExplainHolder is who holds units of a provider.
type ExplainHolder struct {
	Provider  provider.ID           `json:"resource_provider_uuid"`
	Name      string                `json:"name"` // of the provider
	Consumers []resource.ConsumerID `json:"consumer_uuids"`
}

// Explain asks why there are no candidates. Only Berth's Placement can say; another one answers with fault.NotFound.
func (c *Client) Explain(ctx context.Context, ask resource.Ask) (Explanation, error) {
	var out Explanation
	_, err := c.REST.Do(ctx, "GET", "/berth/v1/explain?"+AskQuery(ask).Encode(), nil, &out)
	return out, fault.Wrap("", "placement.Explain", err)
}

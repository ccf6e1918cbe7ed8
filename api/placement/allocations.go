package placement

import (
	"context"
	"net/url"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Candidate is one way to meet an ask: what would be taken where, and which providers each group uses.
type Candidate struct {
	Allocation resource.Allocation
	Mappings   map[string][]provider.ID // by the group's suffix
}

// Capacity is how much of a class a provider can give out in all, and how much of it is taken.
type Capacity struct {
	Capacity int `json:"capacity"`
	Used     int `json:"used"`
}

// Summary tells of a provider in the trees of the candidates, whether or not a candidate uses it.
type Summary struct {
	Root, Parent provider.ID // Parent is empty for a root
	Resources    map[resource.Class]Capacity
	Traits       []resource.Trait
}

// Candidates is the answer to an ask.
type Candidates struct {
	List      []Candidate
	Summaries map[provider.ID]Summary
	Reason    string // why the list is empty, in one line; empty from a Placement that is not Berth's
}

// Candidates asks what could be had. An empty list is an answer and no error.
func (c *Client) Candidates(ctx context.Context, ask resource.Ask) (Candidates, error) {
	var doc CandidatesDoc
	answer, err := c.REST.Do(ctx, "GET", "/allocation_candidates?"+AskQuery(ask).Encode(), nil, &doc)
	if err != nil {
		return Candidates{}, fault.Wrap("", "placement.Candidates", err)
	}
	out := doc.Candidates()
	out.Reason = answer.Header.Get(ReasonHeader)
	return out, nil
}

// Held is what a consumer holds and for whom.
type Held struct {
	Allocation    resource.Allocation
	Mappings      map[string][]provider.ID // written, never read back: Placement does not keep it
	Generation    *int                     // the consumer's generation; nil: a consumer that does not exist yet
	Project, User string
	ConsumerType  string // such as INSTANCE
}

// Allocation reads what a consumer holds. For one that holds nothing the allocation is empty and the generation nil.
func (c *Client) Allocation(ctx context.Context, consumer resource.ConsumerID) (Held, error) {
	var doc AllocationsDoc
	if _, err := c.REST.Do(ctx, "GET", consumerPath(consumer), nil, &doc); err != nil {
		return Held{}, fault.Wrap("", "placement.Allocation", err)
	}
	return doc.Held(), nil
}

// PutAllocation makes held all that the consumer holds. Held with an empty allocation takes everything from a consumer
// that exists. fault.Conflict has the code CodeConcurrentUpdate when the consumer or a provider has changed (read again
// and retry), and CodeUndefined when there is not enough left.
func (c *Client) PutAllocation(ctx context.Context, consumer resource.ConsumerID, held Held) error {
	_, err := c.REST.Do(ctx, "PUT", consumerPath(consumer), allocationsDoc(held), nil)
	return fault.Wrap("", "placement.PutAllocation", err)
}

// PutAllocations makes each Held all that its consumer holds, for all of them in one step or for none: POST /allocations. So what one
// consumer holds can become another's, with nobody in between who could take it. An empty allocation takes everything from a
// consumer that exists. Its faults are those of PutAllocation.
func (c *Client) PutAllocations(ctx context.Context, all map[resource.ConsumerID]Held) error {
	body := make(map[resource.ConsumerID]AllocationsDoc, len(all))
	for consumer, held := range all {
		body[consumer] = allocationsDoc(held)
	}
	_, err := c.REST.Do(ctx, "POST", "/allocations", body, nil)
	return fault.Wrap("", "placement.PutAllocations", err)
}

// DeleteAllocation takes everything from a consumer; nil also when it holds nothing.
func (c *Client) DeleteAllocation(ctx context.Context, consumer resource.ConsumerID) error {
	_, err := c.REST.Do(ctx, "DELETE", consumerPath(consumer), nil, nil)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return fault.Wrap("", "placement.DeleteAllocation", err)
}

func consumerPath(id resource.ConsumerID) string { return "/allocations/" + url.PathEscape(string(id)) }

// ProviderAllocations says who holds what on a provider.
func (c *Client) ProviderAllocations(ctx context.Context, id provider.ID) (map[resource.ConsumerID]resource.Amounts, error) {
	var doc ProviderAllocationsDoc
	if _, err := c.REST.Do(ctx, "GET", providerPath(id, "/allocations"), nil, &doc); err != nil {
		return nil, fault.Wrap("", "placement.ProviderAllocations", err)
	}
	out := make(map[resource.ConsumerID]resource.Amounts, len(doc.Allocations))
	for consumer, a := range doc.Allocations {
		out[consumer] = a.Resources
	}
	return out, nil
}

// Stock is all that a provider shall have, and the generation at which this was decided.
type Stock struct {
	Generation  int
	Inventories map[resource.Class]resource.Inventory
}

// Reshape moves inventories between providers, and the allocations with them, in one step.
type Reshape struct {
	Inventories map[provider.ID]Stock
	Allocations map[resource.ConsumerID]Held
}

// Reshape carries a reshape out, whole or not at all.
func (c *Client) Reshape(ctx context.Context, r Reshape) error {
	_, err := c.REST.Do(ctx, "POST", "/reshaper", reshapeDoc(r), nil)
	return fault.Wrap("", "placement.Reshape", err)
}

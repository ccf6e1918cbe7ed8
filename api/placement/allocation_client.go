package placement

import (
	"context"
	"net/url"
	"strconv"

	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Candidates returns the allocation candidates for an ask. An empty list is not an error.
func (c *Client) Candidates(ctx context.Context, ask resource.Ask) (Candidates, error) {
	var doc CandidatesDoc
	client := c.REST
	if project, _ := ctx.Value(projectKey{}).(string); project != "" {
		client = client.WithHeader(ProjectHeader, project)
	}
	if whole, _ := ctx.Value(wholeTreesKey{}).(bool); whole && client.Headers[CandidatesHeader] == ForScheduling {
		client = client.WithHeader(CandidatesHeader, ForPlanning)
	}
	answer, err := client.Do(ctx, "GET", "/allocation_candidates?"+AskQuery(ask).Encode(), nil, &doc)
	if err != nil {
		return Candidates{}, fault.Wrap("", err)
	}
	out := doc.Candidates()
	out.Reason, out.Undecided, out.Why = answer.Header.Get(ReasonHeader), doc.Undecided, doc.Why
	if limit, err := strconv.Atoi(answer.Header.Get(LimitHeader)); err == nil {
		out.Limit, out.Complete = limit, out.Undecided == "" && (limit == 0 || len(out.List) < limit)
	}
	return out, nil
}

// Allocation reads the allocations of a consumer. Without any, the allocation is empty and the generation nil.
func (c *Client) Allocation(ctx context.Context, consumer resource.ConsumerID) (ConsumerAllocation, error) {
	var doc AllocationsDoc
	if _, err := c.REST.Do(ctx, "GET", consumerPath(consumer), nil, &doc); err != nil {
		return ConsumerAllocation{}, fault.Wrap("", err)
	}
	return doc.Held(), nil
}

// PutAllocation replaces the allocations of a consumer by held. An empty allocation removes all allocations of an
// existing consumer. fault.Conflict has the code CodeConcurrentUpdate if the consumer or a provider has changed (read
// again and retry), and CodeUndefined if there is not enough capacity.
func (c *Client) PutAllocation(ctx context.Context, consumer resource.ConsumerID, held ConsumerAllocation) error {
	client := c.REST
	if held.TreeState != "" {
		client = client.WithHeader(IfTreeStateHeader, string(held.Tree)+"="+held.TreeState)
	}
	_, err := client.Do(ctx, "PUT", consumerPath(consumer), allocationsDoc(held), nil)
	return fault.Wrap("", err)
}

// PutAllocations replaces the allocations of several consumers in one transaction: POST /allocations. It can move
// allocations from one consumer to another, and no other consumer can claim them in between. An empty allocation
// removes all allocations of an existing consumer. Its faults are those of PutAllocation.
func (c *Client) PutAllocations(ctx context.Context, all map[resource.ConsumerID]ConsumerAllocation) error {
	body := make(map[resource.ConsumerID]AllocationsDoc, len(all))
	for consumer, held := range all {
		body[consumer] = allocationsDoc(held)
	}
	_, err := c.REST.Do(ctx, "POST", "/allocations", body, nil)
	return fault.Wrap("", err)
}

// DeleteAllocation deletes all allocations of a consumer. It returns nil also if there are none.
func (c *Client) DeleteAllocation(ctx context.Context, consumer resource.ConsumerID) error {
	_, err := c.REST.Do(ctx, "DELETE", consumerPath(consumer), nil, nil)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return fault.Wrap("", err)
}

func consumerPath(id resource.ConsumerID) string { return "/allocations/" + url.PathEscape(string(id)) }

// ProviderAllocations returns the allocations on a provider, by consumer.
func (c *Client) ProviderAllocations(ctx context.Context,
	id provider.ID) (map[resource.ConsumerID]resource.Amounts, error) {
	doc, _, err := c.providerAllocations(ctx, c.REST, id)
	return doc.byConsumer(), err
}

func (c *Client) providerAllocations(ctx context.Context, client *rest.Client, id provider.ID) (
	doc ProviderAllocationsDoc, answer rest.Answer, err error) {
	answer, err = client.Do(ctx, "GET", providerPath(id, "/allocations"), nil, &doc)
	return doc, answer, fault.Wrap("", err)
}

// TreeAllocations returns the allocations on a root provider and the state of its tree. With whole it returns those on
// all providers of the tree, if the Placement service can: then Whole is set in the result.
func (c *Client) TreeAllocations(ctx context.Context, root provider.ID, whole bool) (TreeAllocations, error) {
	wanted := "state"
	if whole {
		wanted = WholeTree
	}
	doc, answer, err := c.providerAllocations(ctx, c.REST.WithHeader(TreeStateHeader, wanted), root)
	if err != nil {
		return TreeAllocations{}, err
	}
	out := TreeAllocations{Whole: doc.Tree != nil, By: doc.Tree, State: answer.Header.Get(TreeStateHeader)}
	if !out.Whole {
		out.By = map[provider.ID]map[resource.ConsumerID]resource.Amounts{root: doc.byConsumer()}
	}
	return out, nil
}

// TreeState returns the state of the tree of a root provider; empty: the Placement service has none.
func (c *Client) TreeState(ctx context.Context, root provider.ID) (string, error) {
	_, answer, err := c.providerAllocations(ctx, c.REST.WithHeader(TreeStateHeader, OnlyState), root)
	return answer.Header.Get(TreeStateHeader), err
}

// Reshape moves inventories and allocations between providers in one transaction.
func (c *Client) Reshape(ctx context.Context, r Reshape) error {
	_, err := c.REST.Do(ctx, "POST", "/reshaper", reshapeDoc(r), nil)
	return fault.Wrap("", err)
}

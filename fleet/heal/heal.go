// Package heal makes the changes of a fleet.Change in Placement, and reverts them.
//
// Each change is made only if what it changes is as it was read: allocations with the generation of their consumer,
// inventories with that of their provider. An answer that is lost is replaced by reading what Placement has.
package heal

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/fleet"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Result is what became of a change.
type Result struct {
	Subject string `json:"subject"` // the id of the consumer or provider
	What    string `json:"what"`    // the change, as a clause
	Done    bool   `json:"done"`
	Why     string `json:"why,omitempty"` // why it was not made
}

// Complete adds what a snapshot does not have of the providers of a plan, and an undo needs: traits and aggregates. It
// returns fault.Conflict if one of the providers has changed since.
func Complete(ctx context.Context, client *placement.Client, plan []fleet.Change) error {
	trees := map[provider.ID]provider.Tree{}
	for _, c := range plan {
		if c.Provider == nil {
			continue
		}
		p := &c.Provider.Provider
		tree, read := trees[p.Root]
		if !read {
			var err error
			if tree, err = client.Tree(ctx, p.ID); err != nil {
				return fmt.Errorf("provider %s cannot be read: %w", p.Name, err)
			}
			trees[p.Root] = tree
		}
		now, found := tree.ByID(p.ID)
		if !found || now.Generation != p.Generation {
			return fault.New(fault.Conflict, "provider %s was changed since it was read; run the audit again", p.Name)
		}
		*p = now
	}
	return nil
}

// Apply makes the changes of a plan in its order. A change that cannot be made does not stop the others.
func Apply(ctx context.Context, client *placement.Client, plan []fleet.Change) (results []Result) {
	for _, c := range plan {
		results = append(results, one(ctx, client, c))
	}
	return results
}

// Undo makes the changes that revert a plan; see fleet.Undo.
func Undo(ctx context.Context, client *placement.Client, plan []fleet.Change) (results []Result) {
	for _, c := range fleet.Undo(plan) {
		if a := c.Allocation; a != nil {
			held, err := client.Allocation(ctx, a.Consumer)
			if err != nil {
				results = append(results, result(string(a.Consumer), Text(c), err))
				continue
			}
			a.Generation = held.Generation
		}
		results = append(results, one(ctx, client, c))
	}
	return results
}

// Text returns a change as a clause.
func Text(c fleet.Change) string {
	switch a, p := c.Allocation, c.Provider; {
	case a != nil && len(a.After) == 0:
		return "remove " + a.Before.Sum().String()
	case a != nil && len(a.Before) == 0:
		return "allocate " + a.After.Sum().String()
	case a != nil:
		return fmt.Sprintf("replace %s by %s", allocationText(a.Before), allocationText(a.After))
	case p.Restore && p.Delete:
		return "create provider " + p.Provider.Name + " again"
	case p.Restore:
		return "restore the inventories of " + p.Provider.Name
	case p.Delete:
		return "delete provider " + p.Provider.Name
	default:
		return "empty the inventories of " + p.Provider.Name
	}
}

// allocationText formats amounts by provider.
func allocationText(held resource.Allocation) string {
	text := ""
	for _, id := range slices.Sorted(maps.Keys(held)) {
		text += fmt.Sprintf(" %s of %s", held[id], id)
	}
	return text[min(1, len(text)):]
}

// one makes one change.
func one(ctx context.Context, client *placement.Client, c fleet.Change) Result {
	if c.Allocation != nil {
		return result(string(c.Allocation.Consumer), Text(c), allocate(ctx, client, c.Allocation))
	}
	p, err := &c.Provider.Provider, error(nil)
	switch {
	case c.Provider.Restore && c.Provider.Delete:
		err = create(ctx, client, *p)
	case c.Provider.Restore:
		err = refill(ctx, client, *p)
	case c.Provider.Delete:
		err = remove(ctx, client, *p)
	default:
		_, err = client.PutInventories(ctx, p.ID, p.Generation, map[resource.Class]resource.Inventory{})
	}
	return result(string(p.ID), Text(c), err)
}

func result(subject, what string, err error) Result {
	r := Result{Subject: subject, What: what, Done: err == nil}
	if err != nil {
		r.Why = err.Error()
	}
	return r
}

// allocate replaces the allocation of a consumer if it is as it was read.
func allocate(ctx context.Context, client *placement.Client, c *fleet.AllocationChange) error {
	now, err := client.Allocation(ctx, c.Consumer)
	switch {
	case err != nil:
		return err
	case now.Allocation.Equal(c.After):
		return nil
	case !now.Allocation.Equal(c.Before) || !same(now.Generation, c.Generation):
		return fault.New(fault.Conflict, "its allocation was changed since it was read: it is %s",
			allocationText(now.Allocation))
	}
	err = client.PutAllocation(ctx, c.Consumer, placement.ConsumerAllocation{Allocation: c.After,
		Generation: c.Generation, Project: c.Project, User: c.User, ConsumerType: c.Type})
	if err == nil || fault.Is(err, fault.Conflict) {
		return err
	}
	if now, other := client.Allocation(ctx, c.Consumer); other == nil && now.Allocation.Equal(c.After) {
		return nil // the answer was lost
	}
	return err
}

// same reports whether two generations are equal.
func same(a, b *int) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }

// remove deletes a provider if it is as it was read. Placement refuses one that has allocations or children.
func remove(ctx context.Context, client *placement.Client, p provider.Provider) error {
	now, err := client.Inventories(ctx, p.ID)
	switch {
	case fault.Is(err, fault.NotFound):
		return nil
	case err != nil:
		return err
	case now.Generation != p.Generation:
		return fault.New(fault.Conflict, "the provider was changed since it was read")
	}
	return client.DeleteProvider(ctx, p.ID)
}

// create creates a provider again that was deleted, and completes one whose creation was interrupted. It returns
// fault.Conflict if the provider exists with other contents.
func create(ctx context.Context, client *placement.Client, p provider.Provider) error {
	tree, err := client.Tree(ctx, p.ID)
	now, found := tree.ByID(p.ID)
	switch {
	case err != nil && !fault.Is(err, fault.NotFound):
		return err
	case err != nil || !found:
		now, err = client.CreateProvider(ctx, p.ID, p.Name, p.Parent)
		if err != nil {
			return err
		}
	case !isPartOf(now, p):
		return fault.New(fault.Conflict, "the provider exists, and has other inventories, traits or aggregates now")
	}
	return fill(ctx, client, now, p)
}

// isPartOf reports whether a provider has nothing, or what a saved one has, of each of inventories, traits and
// aggregates.
func isPartOf(now, saved provider.Provider) bool {
	return (len(now.Inventories) == 0 || maps.Equal(now.Inventories, saved.Inventories)) &&
		(len(now.Traits) == 0 || equal(now.Traits, saved.Traits)) &&
		(len(now.Aggregates) == 0 || equal(now.Aggregates, saved.Aggregates))
}

// equal compares lists without regard to their order.
func equal[T cmp.Ordered](a, b []T) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// fill gives a provider what it lacks of a saved one.
func fill(ctx context.Context, client *placement.Client, now, saved provider.Provider) (err error) {
	generation := now.Generation
	if !maps.Equal(now.Inventories, saved.Inventories) {
		if generation, err = client.PutInventories(ctx, saved.ID, generation, saved.Inventories); err != nil {
			return err
		}
	}
	if !equal(now.Traits, saved.Traits) {
		if generation, err = client.PutTraits(ctx, saved.ID, generation, saved.Traits); err != nil {
			return err
		}
	}
	if equal(now.Aggregates, saved.Aggregates) {
		return nil
	}
	return client.PutAggregates(ctx, saved.ID, placement.AggregatesDoc{Generation: generation,
		Aggregates: saved.Aggregates})
}

// refill writes the inventories of a provider again, if it has none.
func refill(ctx context.Context, client *placement.Client, p provider.Provider) error {
	now, err := client.Inventories(ctx, p.ID)
	switch {
	case err != nil:
		return err
	case maps.Equal(now.Inventories, p.Inventories):
		return nil
	case len(now.Inventories) > 0:
		return fault.New(fault.Conflict, "the provider has other inventories now")
	}
	_, err = client.PutInventories(ctx, p.ID, now.Generation, p.Inventories)
	return err
}

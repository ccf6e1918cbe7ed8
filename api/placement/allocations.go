package placement

import (
	"context"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

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

package server

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"time"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

func (c *call) consumer() resource.ConsumerID { return resource.ConsumerID(c.R.PathValue("uuid")) }

func (c *call) showAllocations() error {
	held, err := c.server.store.ConsumerAllocations(c.Context(), c.consumer())
	if err != nil {
		return err
	}
	shares := make(map[provider.ID]api.ShareDoc, len(held.Allocation))
	for id, amounts := range held.Allocation {
		generation := held.Generations[id]
		shares[id] = api.ShareDoc{Resources: amounts, Generation: &generation}
	}
	d := object{"allocations": shares}
	if len(shares) > 0 {
		if c.version >= sinceAllocationOwner {
			d["project_id"], d["user_id"] = held.Project, held.User
		}
		if c.version >= sinceConsumerGuard {
			d["consumer_generation"] = held.Generation
		}
		if c.version >= sinceConsumerTypes {
			d["consumer_type"] = held.ConsumerType
		}
	}
	c.setModified(held.Modified)
	return c.sendJSON(http.StatusOK, d)
}

func (c *call) providerAllocations() error {
	if wanted := c.R.Header.Get(api.TreeStateHeader); wanted != "" {
		return c.treeAllocations(wanted)
	}
	all, err := c.server.store.ProviderAllocations(c.Context(), c.provider())
	if err != nil {
		return err
	}
	shares := make(map[resource.ConsumerID]object, len(all.Shares))
	for id, share := range all.Shares {
		shares[id] = object{"resources": share.Amounts}
		if c.version >= sinceConsumerGuard {
			shares[id]["consumer_generation"] = share.Generation
		}
	}
	c.setModified(all.Modified)
	return c.sendJSON(http.StatusOK, object{"resource_provider_generation": all.Generation, "allocations": shares})
}

// treeAllocations answers a request for the state of a tree, with the allocations that are wanted beside it.
func (c *call) treeAllocations(wanted string) (err error) {
	root, shares := c.provider(), map[resource.ConsumerID]object{}
	answer := object{"allocations": shares}
	state := c.server.store.TreeState(root) // before the allocations are read
	if wanted == api.OnlyState {
		if state, err = c.server.store.CurrentTreeState(c.Context(), root); err != nil {
			return err
		}
	}
	if state != "" {
		c.W.Header().Set(api.TreeStateHeader, string(state))
	}
	if wanted != api.OnlyState || state == "" {
		all, err := c.server.store.TreeAllocations(c.Context(), root, wanted == api.WholeTree)
		if err != nil {
			return err
		}
		if wanted == api.WholeTree {
			answer["tree"] = all
		} else {
			for consumer, amounts := range all[root] {
				shares[consumer] = object{"resources": amounts}
			}
		}
	}
	c.setModified(time.Time{})
	return c.sendJSON(http.StatusOK, answer)
}

// claim returns the claim that an allocations document makes for one consumer.
func (c *call) claim(id resource.ConsumerID, d api.AllocationsDoc) store.Claim {
	return store.Claim{Consumer: id, Allocation: d.Held().Allocation, Guarded: c.version >= sinceConsumerGuard,
		Generation: d.Generation, Project: d.Project, User: d.User, ConsumerType: d.ConsumerType}
}

// claims returns the claims of allocations documents, sorted by consumer.
func (c *call) claims(docs map[resource.ConsumerID]api.AllocationsDoc) []store.Claim {
	var list []store.Claim
	for _, id := range slices.Sorted(maps.Keys(docs)) {
		list = append(list, c.claim(id, docs[id]))
	}
	return list
}

func (c *call) putAllocations() error {
	id, ok := api.CanonicalUUID(c.R.PathValue("uuid"))
	if !ok {
		return fault.New(fault.Invalid, "Malformed consumer_uuid: %s", c.R.PathValue("uuid"))
	}
	in, err := c.readAllocations()
	if err != nil {
		return err
	}
	claim := c.claim(resource.ConsumerID(id), in)
	tree, state := api.ParseIfTreeState(c.R.Header.Get(api.IfTreeStateHeader))
	claim.Tree, claim.TreeState = tree, store.TreeState(state)
	return c.writeClaims(claim)
}

// readAllocations reads the body of PUT /allocations/{consumer}. Its allocations are a list up to microversion 1.11.
func (c *call) readAllocations() (api.AllocationsDoc, error) {
	if c.version > lastListShapedAllocate {
		var in api.AllocationsDoc
		err := c.read(api.BodyAllocation, &in)
		return in, err
	}
	var list struct {
		Allocations []struct {
			Provider  struct{ UUID provider.ID } `json:"resource_provider"`
			Resources resource.Amounts           `json:"resources"`
		} `json:"allocations"`
		Project string `json:"project_id"`
		User    string `json:"user_id"`
	}
	err := c.read(api.BodyAllocation, &list)
	in := api.AllocationsDoc{Allocations: map[provider.ID]api.ShareDoc{}, Project: list.Project, User: list.User}
	for _, share := range list.Allocations {
		in.Allocations[share.Provider.UUID] = api.ShareDoc{Resources: share.Resources}
	}
	return in, err
}

func (c *call) postAllocations() error {
	var in map[resource.ConsumerID]api.AllocationsDoc
	if err := c.read(api.BodyAllocations, &in); err != nil {
		return err
	}
	return c.writeClaims(c.claims(in)...)
}

// writeClaims writes the allocations of all claims in one transaction and answers 204.
func (c *call) writeClaims(claims ...store.Claim) error {
	change, err := c.server.store.PutAllocations(c.Context(), claims...)
	c.server.metrics.Claims(len(claims), err)
	if err != nil {
		c.refreshRefused(err, claims, nil)
		return err
	}
	c.refresh(change)
	return c.WriteStatus(http.StatusNoContent)
}

// refreshRefused reads the trees of a refused write again, because the index that proposed the candidate may be out of
// date. The write is not repeated: a claim consists of amounts and a consumer generation, which do not depend on the
// index, and the database has checked it against its current state. (The store repeats transactions that conflict with
// others: Store.ClaimAttempts.) The client may choose another candidate. more are further providers of the write.
func (c *call) refreshRefused(err error, claims []store.Claim, more []provider.ID) {
	if !fault.Is(err, fault.Conflict) && !fault.Is(err, fault.NoCapacity) || fault.CodeOf(err) == api.CodeTreeChanged {
		return
	}
	ids := more
	for _, claim := range claims {
		ids = slices.AppendSeq(ids, maps.Keys(claim.Allocation))
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	var roots []provider.ID
	snapshot := c.server.index.Snapshot()
	for _, id := range ids {
		if row, ok := snapshot.Row(id); ok {
			roots = append(roots, cmp.Or(row.Root, row.ID))
		}
	}
	if now, err := c.server.store.Roots(c.Context(), ids...); err == nil {
		roots = append(roots, now...) // differ if another process has moved a provider
	}
	c.refreshRoots(roots)
}

func (c *call) deleteAllocations() error {
	change, err := c.server.store.DeleteAllocations(c.Context(), c.consumer())
	if err != nil {
		return err
	}
	c.refresh(change)
	return c.WriteStatus(http.StatusNoContent)
}

// reshape handles POST /reshaper: it moves inventories and their allocations between providers in one transaction.
func (c *call) reshape() error {
	var in api.ReshapeDoc
	if err := c.read(api.BodyReshape, &in); err != nil {
		return err
	}
	inventories := make(map[provider.ID]store.NewInventories, len(in.Inventories))
	for id, d := range in.Inventories {
		all := make(map[resource.Class]resource.Inventory, len(d.Inventories))
		for class, inv := range d.Inventories {
			all[class] = inv.Inventory()
		}
		inventories[id] = store.NewInventories{Generation: d.Generation, Classes: all}
	}
	claims := c.claims(in.Allocations)
	change, err := c.server.store.Reshape(c.Context(), inventories, claims)
	c.server.metrics.Claims(len(claims), err)
	if err != nil {
		c.refreshRefused(err, claims, slices.Collect(maps.Keys(inventories)))
		return c.firstConflict(inventories, err)
	}
	c.refresh(change)
	return c.WriteStatus(http.StatusNoContent)
}

// firstConflict returns the error of a refused reshape. As in the original, it is that of the first provider in the
// body that does not exist or has another generation; without such a provider, it is found.
func (c *call) firstConflict(inventories map[provider.ID]store.NewInventories, found error) error {
	if !fault.Is(found, fault.Invalid) && !fault.Is(found, fault.Conflict) && !fault.Is(found, fault.NoCapacity) {
		return found
	}
	for _, id := range api.Names(c.body, "inventories") {
		want, named := inventories[provider.ID(id)]
		p, err := c.server.store.Provider(c.Context(), provider.ID(id))
		switch {
		case !named || err != nil && !fault.Is(err, fault.NotFound):
			return found
		case err != nil:
			return fault.New(fault.Invalid, "no resource provider %s, which inventories names", id).
				WithCode(api.CodeProviderNotFound)
		case p.Generation != want.Generation:
			return fault.New(fault.Conflict,
				"resource provider generation conflict: that of %s is %d, and %d was given", id, p.Generation, want.Generation).
				WithCode(api.CodeConcurrentUpdate)
		}
	}
	return found
}

package resources

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"time"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/server/request"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

func consumerID(c *request.Call) resource.ConsumerID {
	return resource.ConsumerID(c.R.PathValue("uuid"))
}

func showAllocations(c *request.Call) error {
	held, err := c.Service.Store.ConsumerAllocations(c.Context(), consumerID(c))
	if err != nil {
		return err
	}
	shares := make(map[provider.ID]api.ShareDoc, len(held.Allocation))
	for id, amounts := range held.Allocation {
		generation := held.Generations[id]
		shares[id] = api.ShareDoc{Resources: amounts, Generation: &generation}
	}
	d := request.Object{"allocations": shares}
	if len(shares) > 0 {
		if c.Microversion >= request.SinceAllocationOwner {
			d["project_id"], d["user_id"] = held.Project, held.User
		}
		if c.Microversion >= request.SinceConsumerGuard {
			d["consumer_generation"] = held.Generation
		}
		if c.Microversion >= request.SinceConsumerTypes {
			d["consumer_type"] = held.ConsumerType
		}
	}
	c.SetModified(held.Modified)
	return c.SendJSON(http.StatusOK, d)
}

func providerAllocations(c *request.Call) error {
	if wanted := c.R.Header.Get(api.TreeStateHeader); wanted != "" {
		return treeAllocations(c, wanted)
	}
	all, err := c.Service.Store.ProviderAllocations(c.Context(), c.Provider())
	if err != nil {
		return err
	}
	shares := make(map[resource.ConsumerID]request.Object, len(all.Shares))
	for id, share := range all.Shares {
		shares[id] = request.Object{"resources": share.Amounts}
		if c.Microversion >= request.SinceConsumerGuard {
			shares[id]["consumer_generation"] = share.Generation
		}
	}
	c.SetModified(all.Modified)
	return c.SendJSON(http.StatusOK, request.Object{"resource_provider_generation": all.Generation,
		"allocations": shares})
}

// treeAllocations answers a request for the state of a tree, with the allocations that are wanted beside it.
func treeAllocations(c *request.Call, wanted string) (err error) {
	root, shares := c.Provider(), map[resource.ConsumerID]request.Object{}
	answer := request.Object{"allocations": shares}
	state := c.Service.Store.TreeState(root) // before the allocations are read
	if wanted == api.OnlyState {
		if state, err = c.Service.Store.CurrentTreeState(c.Context(), root); err != nil {
			return err
		}
	}
	if state != "" {
		c.W.Header().Set(api.TreeStateHeader, string(state))
	}
	if wanted != api.OnlyState || state == "" {
		all, err := c.Service.Store.TreeAllocations(c.Context(), root, wanted == api.WholeTree)
		if err != nil {
			return err
		}
		if wanted == api.WholeTree {
			answer["tree"] = all
		} else {
			for consumer, amounts := range all[root] {
				shares[consumer] = request.Object{"resources": amounts}
			}
		}
	}
	c.SetModified(time.Time{})
	return c.SendJSON(http.StatusOK, answer)
}

// claimOf returns the claim that an allocations document makes for one consumer.
func claimOf(c *request.Call, id resource.ConsumerID, d api.AllocationsDoc) store.Claim {
	return store.Claim{Consumer: id, Allocation: d.Held().Allocation,
		Guarded:    c.Microversion >= request.SinceConsumerGuard,
		Generation: d.Generation, Project: d.Project, User: d.User, ConsumerType: d.ConsumerType}
}

// claimsOf returns the claims of allocations documents, sorted by consumer.
func claimsOf(c *request.Call, docs map[resource.ConsumerID]api.AllocationsDoc) []store.Claim {
	var list []store.Claim
	for _, id := range slices.Sorted(maps.Keys(docs)) {
		list = append(list, claimOf(c, id, docs[id]))
	}
	return list
}

func putAllocations(c *request.Call) error {
	id, ok := api.CanonicalUUID(c.R.PathValue("uuid"))
	if !ok {
		return fault.New(fault.Invalid, "Malformed consumer_uuid: %s", c.R.PathValue("uuid"))
	}
	in, err := readAllocations(c)
	if err != nil {
		return err
	}
	claim := claimOf(c, resource.ConsumerID(id), in)
	tree, state := api.ParseIfTreeState(c.R.Header.Get(api.IfTreeStateHeader))
	claim.Tree, claim.TreeState = tree, store.TreeState(state)
	return writeClaims(c, claim)
}

// readAllocations reads the body of PUT /allocations/{consumer}. Its allocations are a list up to microversion 1.11.
func readAllocations(c *request.Call) (api.AllocationsDoc, error) {
	if c.Microversion > request.LastListShapedAllocate {
		var in api.AllocationsDoc
		err := c.Read(api.BodyAllocation, &in)
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
	err := c.Read(api.BodyAllocation, &list)
	in := api.AllocationsDoc{Allocations: map[provider.ID]api.ShareDoc{}, Project: list.Project, User: list.User}
	for _, share := range list.Allocations {
		in.Allocations[share.Provider.UUID] = api.ShareDoc{Resources: share.Resources}
	}
	return in, err
}

func postAllocations(c *request.Call) error {
	var in map[resource.ConsumerID]api.AllocationsDoc
	if err := c.Read(api.BodyAllocations, &in); err != nil {
		return err
	}
	return writeClaims(c, claimsOf(c, in)...)
}

// writeClaims writes the allocations of all claims in one transaction and answers 204.
func writeClaims(c *request.Call, claims ...store.Claim) error {
	change, err := c.Service.Store.PutAllocations(c.Context(), claims...)
	c.Service.Metrics.Claims(len(claims), err)
	if err != nil {
		refreshRefused(c, err, claims, nil)
		return err
	}
	refresh(c, change)
	return c.WriteStatus(http.StatusNoContent)
}

// refreshRefused reads the trees of a refused write again, because the index that proposed the candidate may be out of
// date. The write is not repeated: a claim consists of amounts and a consumer generation, which do not depend on the
// index, and the database has checked it against its current state. (The store repeats transactions that conflict with
// others: Store.ClaimAttempts.) The client may choose another candidate. more are further providers of the write.
func refreshRefused(c *request.Call, err error, claims []store.Claim, more []provider.ID) {
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
	snapshot := c.Service.Index.Snapshot()
	for _, id := range ids {
		if row, ok := snapshot.Row(id); ok {
			roots = append(roots, cmp.Or(row.Root, row.ID))
		}
	}
	if now, err := c.Service.Store.Roots(c.Context(), ids...); err == nil {
		roots = append(roots, now...) // differ if another process has moved a provider
	}
	refreshRoots(c, roots)
}

func deleteAllocations(c *request.Call) error {
	change, err := c.Service.Store.DeleteAllocations(c.Context(), consumerID(c))
	if err != nil {
		return err
	}
	refresh(c, change)
	return c.WriteStatus(http.StatusNoContent)
}

// reshape handles POST /reshaper: it moves inventories and their allocations between providers in one transaction.
func reshape(c *request.Call) error {
	var in api.ReshapeDoc
	if err := c.Read(api.BodyReshape, &in); err != nil {
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
	claims := claimsOf(c, in.Allocations)
	change, err := c.Service.Store.Reshape(c.Context(), inventories, claims)
	c.Service.Metrics.Claims(len(claims), err)
	if err != nil {
		refreshRefused(c, err, claims, slices.Collect(maps.Keys(inventories)))
		return firstConflict(c, inventories, err)
	}
	refresh(c, change)
	return c.WriteStatus(http.StatusNoContent)
}

// firstConflict returns the error of a refused reshape. As in the original, it is that of the first provider in the
// body that does not exist or has another generation; without such a provider, it is found.
func firstConflict(c *request.Call, inventories map[provider.ID]store.NewInventories, found error) error {
	if !fault.Is(found, fault.Invalid) && !fault.Is(found, fault.Conflict) && !fault.Is(found, fault.NoCapacity) {
		return found
	}
	for _, id := range api.Names(c.Body, "inventories") {
		want, named := inventories[provider.ID(id)]
		p, err := c.Service.Store.Provider(c.Context(), provider.ID(id))
		switch {
		case !named || err != nil && !fault.Is(err, fault.NotFound):
			return found
		case err != nil:
			return fault.New(fault.Invalid, "no resource provider %s, which inventories names", id).
				WithCode(api.CodeProviderNotFound)
		case p.Generation != want.Generation:
			return fault.New(fault.Conflict,
				"resource provider generation conflict: that of %s is %d, and %d was given", id, p.Generation,
				want.Generation).
				WithCode(api.CodeConcurrentUpdate)
		}
	}
	return found
}

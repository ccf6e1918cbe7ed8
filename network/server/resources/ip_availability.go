package resources

import (
	"math/big"
	"net/url"
	"slices"

	"github.com/openberth/berth/network/address"
	"github.com/openberth/berth/network/operations"
	"github.com/openberth/berth/network/server/request"
	"github.com/openberth/berth/network/store"
)

// ipAvailabilities returns the collection of how many addresses networks have and use.
func (s handlers) ipAvailabilities() request.Collection {
	return request.Collection{One: "network_ip_availability", Many: "network_ip_availabilities",
		Missing:    "NetworkNotFound",
		Attributes: []string{"network_id", "network_name", "ip_version", "project_id", "tenant_id"},
		Hidden:     []string{"id", "ip_version"},
		List:       s.listIPAvailabilities, Show: s.showIPAvailability}
}

func (s handlers) listIPAvailabilities(c *request.Call, q url.Values) (list []request.Document, err error) {
	f := store.Filter{IDs: q["network_id"], Projects: append(q["project_id"], q["tenant_id"]...)}
	ctx := c.R.Context()
	err = s.Ops.Store.Read(ctx, func(tx *store.Tx) error {
		networks, err := store.List[store.Network](ctx, tx, f)
		list = nil
		for _, n := range networks {
			d, err := availabilityDocument(c, tx, n, q["ip_version"])
			if err != nil {
				return err
			}
			list = append(list, d)
		}
		return err
	})
	return list, err
}

func (s handlers) showIPAvailability(c *request.Call, id string) (d request.Document, err error) {
	ctx := c.R.Context()
	n, err := operations.Get[store.Network](ctx, s.Ops, id)
	if err != nil {
		return d, err
	}
	err = s.Ops.Store.Read(ctx, func(tx *store.Tx) error {
		d, err = availabilityDocument(c, tx, n, nil)
		return err
	})
	return d, err
}

// availabilityDocument returns the document of a network: the addresses of its allocation pools, and those of ports.
// versions selects subnets by their IP version; none: all.
func availabilityDocument(c *request.Call, tx *store.Tx, n store.Network, versions []string) (request.Document, error) {
	ctx := c.R.Context()
	subnets, err := store.List[store.Subnet](ctx, tx, store.Filter{Networks: []string{n.ID}})
	if err != nil {
		return request.Document{}, err
	}
	total, used, parts := new(big.Int), 0, []map[string]any{}
	for _, sub := range subnets {
		if len(versions) > 0 && !slices.Contains(versions, versionText(sub)) {
			continue
		}
		owners, err := tx.Addresses(ctx, sub.ID)
		if err != nil {
			return request.Document{}, err
		}
		size := poolSize(sub)
		total.Add(total, size)
		used += len(owners)
		parts = append(parts, map[string]any{"subnet_id": sub.ID, "subnet_name": sub.Name, "cidr": sub.CIDR,
			"ip_version": sub.IPVersion, "total_ips": size, "used_ips": len(owners)})
	}
	view := map[string]any{"id": n.ID, "network_id": n.ID, "network_name": n.Name, "project_id": n.Project,
		"tenant_id": n.Project, "subnet_ip_availability": parts, "total_ips": total, "used_ips": used,
		"ip_version": versions}
	return request.Document{View: view, Target: c.Target(n.Project, nil)}, nil
}

func versionText(sub store.Subnet) string { return map[int]string{4: "4", 6: "6"}[sub.IPVersion] }

// poolSize returns the number of addresses in the allocation pools of a subnet.
func poolSize(sub store.Subnet) *big.Int {
	size := new(big.Int)
	for _, p := range sub.Pools {
		first, err1 := address.Parse(p.Start)
		last, err2 := address.Parse(p.End)
		if err1 == nil && err2 == nil {
			n := new(big.Int).SetBytes(last.AsSlice())
			size.Add(size, n.Sub(n, new(big.Int).SetBytes(first.AsSlice())).Add(n, big.NewInt(1)))
		}
	}
	return size
}

package server

import (
	"context"
	"math/big"
	"net/url"

	"github.com/openberth/berth/network/address"
	"github.com/openberth/berth/network/operations"
	"github.com/openberth/berth/network/store"
)

// ipAvailabilities returns the collection of how many addresses networks have and use.
func (s handlers) ipAvailabilities() collection {
	return collection{one: "network_ip_availability", many: "network_ip_availabilities", missing: "NetworkNotFound",
		attributes: []string{"network_id", "network_name", "ip_version", "project_id", "tenant_id"},
		hidden:     []string{"id", "ip_version"},
		list:       s.listIPAvailabilities, show: s.showIPAvailability}
}

func (s handlers) listIPAvailabilities(c *call, q url.Values) (list []document, err error) {
	f := store.Filter{IDs: q["network_id"], Projects: append(q["project_id"], q["tenant_id"]...)}
	ctx := c.R.Context()
	err = s.ops.Store.Read(ctx, func(tx *store.Tx) error {
		networks, err := store.List[store.Network](ctx, tx, f)
		list = nil
		for _, n := range networks {
			d, err := c.ipAvailability(ctx, tx, n, q["ip_version"])
			if err != nil {
				return err
			}
			list = append(list, d)
		}
		return err
	})
	return list, err
}

func (s handlers) showIPAvailability(c *call, id string) (d document, err error) {
	ctx := c.R.Context()
	n, err := operations.Get[store.Network](ctx, s.ops, id)
	if err != nil {
		return d, err
	}
	err = s.ops.Store.Read(ctx, func(tx *store.Tx) error {
		d, err = c.ipAvailability(ctx, tx, n, nil)
		return err
	})
	return d, err
}

// ipAvailability returns the document of a network: the addresses of its allocation pools, and those of ports. versions
// selects subnets by their IP version; none: all.
func (c *call) ipAvailability(ctx context.Context, tx *store.Tx, n store.Network, versions []string) (document, error) {
	subnets, err := store.List[store.Subnet](ctx, tx, store.Filter{Networks: []string{n.ID}})
	if err != nil {
		return document{}, err
	}
	total, used, parts := new(big.Int), 0, []map[string]any{}
	for _, sub := range subnets {
		if len(versions) > 0 && !equals("ip_version", versions, versionText(sub)) {
			continue
		}
		owners, err := tx.Addresses(ctx, sub.ID)
		if err != nil {
			return document{}, err
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
	return document{view, c.target(n.Project, nil)}, nil
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

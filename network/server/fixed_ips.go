package server

import (
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/network/address"
	"github.com/openberth/berth/network/store"
)

// limitList refuses a list of more than limit elements.
func limitList(o *edge.Object, key string, elements, limit int) {
	if elements > limit {
		o.Invalid(key, "it has %d elements; at most %d are possible", elements, limit)
	}
}

// maxFixedIPs is how many addresses a request can give to a port. Each one is a search while no other client can write.
const maxFixedIPs = 50

func readFixedIPs(o *edge.Object) (ips []store.FixedIP, given bool) {
	var list []struct {
		Subnet  string `json:"subnet_id"`
		Address string `json:"ip_address"`
	}
	given = o.Has("fixed_ips") && string(o.Keys["fixed_ips"]) != "null"
	o.Decode("fixed_ips", &list, "a list of objects with subnet_id and ip_address")
	limitList(o, "fixed_ips", len(list), maxFixedIPs)
	ips = []store.FixedIP{}
	for _, one := range list {
		if one.Address == "" && one.Subnet == "" {
			o.Invalid("fixed_ips", "an element has neither subnet_id nor ip_address")
		}
		if a, err := address.Parse(one.Address); err == nil {
			one.Address = a.String()
		}
		ips = append(ips, store.FixedIP(one))
	}
	return ips, given
}

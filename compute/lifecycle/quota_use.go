package lifecycle

import (
	"slices"

	"github.com/openberth/berth/compute/quota"
	"github.com/openberth/berth/resource"
)

// QuotaUse returns what a server counts against the quotas of its project; nothing if it has ended. While it moves it
// counts the larger one of the source and the destination, although both have allocations in Placement. So a move that
// needs no more is never refused, and neither a confirmation nor a revert can exceed a limit.
//
// Amounts of resource classes are those of its request to Placement, from before it is claimed. A server that is
// shelved, or in ERROR without a guest, counts none, because it has no allocation.
func (s Server) QuotaUse() quota.Amounts {
	if !s.Ended.IsZero() || s.State == Deleted {
		return nil
	}
	use := quota.Amounts{quota.Instances: 1, quota.Cores: s.Flavor.VCPUs, quota.RAM: s.Flavor.MemoryMB}
	if !slices.Contains([]State{Shelved, Error}, s.State) {
		addClasses(use, s.ClassUse())
	}
	if s.Move == nil {
		return use
	}
	from := s.Move.From
	source := quota.Amounts{quota.Cores: from.Flavor.VCPUs, quota.RAM: from.Flavor.MemoryMB}
	addClasses(source, GroupAmounts(from.Ask.Groups))
	for _, p := range from.Ports {
		addClasses(source, GroupAmounts(p.Groups))
	}
	for name, n := range source {
		use[name] = max(use[name], n)
	}
	return use
}

// ClassUse returns what the server requests of each resource class: for its flavor, and for its ports with those that
// are being attached.
func (s Server) ClassUse() resource.Amounts {
	all := resource.Amounts{}
	add := func(amounts resource.Amounts) {
		for class, n := range amounts {
			all[class] += n
		}
	}
	if add(GroupAmounts(s.Ask.Groups)); len(s.Ask.Groups) == 0 {
		add(s.RequestedAmounts)
	}
	for _, p := range s.Ports {
		add(GroupAmounts(p.Groups))
	}
	var attaching []NetworkRequest
	if len(s.Ports) == 0 {
		attaching = append(attaching, s.Networks...)
	}
	if s.PortChange != nil {
		attaching = append(attaching, s.PortChange.Request)
	}
	for _, q := range s.PortQueue {
		attaching = append(attaching, q.Request)
	}
	for _, r := range attaching {
		if !s.HasPort(r.Port) {
			add(s.PortAmounts[r.Port])
		}
	}
	return all
}

// GroupAmounts returns what request groups request together.
func GroupAmounts(groups []resource.Group) resource.Amounts {
	all := resource.Amounts{}
	for _, g := range groups {
		for class, n := range g.Resources {
			all[class] += n
		}
	}
	return all
}

func addClasses(use quota.Amounts, amounts resource.Amounts) {
	for class, n := range amounts {
		if n > 0 {
			use[quota.ClassPrefix+string(class)] += n
		}
	}
}

package lifecycle

import (
	"slices"

	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/compute/quota"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/resource"
)

// QuotaUse returns what a server counts against the quotas of its project; nothing if it has ended. While it moves it
// counts the larger one of the source and the destination, although both have allocations in Placement. So a move that
// needs no more is never refused, and neither a confirmation nor a revert can exceed a limit.
//
// Amounts of resource classes are those of its allocation, which may be more than it has requested: the PF of a card
// takes the slices of all its VFs. Before it is claimed they are those of its request, and so are the classes of
// guarantees, because the network service changes these. A server that is shelved, or in ERROR without a guest, counts
// none, because it has no allocation. A server that is soft-deleted counts nothing else, as in Nova, until it is
// restored.
func (s Server) QuotaUse() quota.Amounts {
	return s.useOf(s.presence() > absent || s.ClaimedHost() != "")
}

// useOf returns what the server counts. claims is whether it has, or is about to claim, the allocation of its first
// choice.
func (s Server) useOf(claims bool) quota.Amounts {
	if !s.Ended.IsZero() || s.State == Deleted {
		return nil
	}
	use := quota.Amounts{quota.Instances: 1, quota.Cores: s.Flavor.VCPUs, quota.RAM: s.Flavor.MemoryMB}
	if s.VMState() == "soft-delete" && s.Task != Restoring {
		use = quota.Amounts{}
	}
	if !slices.Contains([]State{Shelved, Error}, s.State) {
		addClasses(use, s.classUse(claims))
	}
	if s.Move == nil {
		return use
	}
	from := s.Move.From
	source := quota.Amounts{quota.Cores: from.Flavor.VCPUs, quota.RAM: from.Flavor.MemoryMB}
	requested := GroupAmounts(from.Ask.Groups)
	sumAmounts(requested, s.guaranteesOf(from.Ports))
	addClasses(source, allocated(requested, from.Choice))
	for name, n := range source {
		use[name] = max(use[name], n)
	}
	return use
}

// classUse returns what the server has of each resource class, or requests before it is claimed: for its flavor, and
// for its ports with those that are being attached or detached.
func (s Server) classUse(claims bool) resource.Amounts {
	all := GroupAmounts(s.Ask.Groups)
	if len(s.Ask.Groups) == 0 {
		sumAmounts(all, s.RequestedAmounts)
	}
	sumAmounts(all, s.guaranteesOf(s.Ports))
	if len(s.Choices) > 0 && claims {
		all = allocated(all, &s.Choices[0])
	}
	var attaching []NetworkRequest
	if len(s.Ports) == 0 {
		attaching = append(attaching, s.Networks...)
	}
	for _, q := range s.PortQueue {
		attaching = append(attaching, q.Request)
	}
	for _, r := range attaching {
		if !s.HasPort(r.Port) {
			sumAmounts(all, s.PortAmounts[r.Port])
		}
	}
	sumAmounts(all, s.portChangeUse())
	for _, more := range s.Reserved {
		sumAmounts(all, more)
	}
	return all
}

// allocated returns the amounts of an allocation, with the requested ones of the classes that ports request with a QoS
// policy; nil: all requested ones.
func allocated(requested resource.Amounts, choice *schedule.Choice) resource.Amounts {
	if choice == nil || len(choice.Allocation) == 0 {
		return requested
	}
	all := resource.Amounts{}
	for class, n := range requested {
		if bandwidth.IsPortClass(class) {
			all[class] = n
		}
	}
	for _, amounts := range WithoutPorts(choice.Allocation) {
		sumAmounts(all, amounts)
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

// WithQuota returns the server with the check of its quotas; nil: they are not checked. It is not a part of the record.
// check returns an error if the server, as it would be with its first choice, exceeds a limit.
func (s Server) WithQuota(check func(Server) error) Server {
	s.quota = check
	return s
}

// ClaimUse returns what the server would count with the allocation of its first choice.
func (s Server) ClaimUse() quota.Amounts { return s.useOf(true) }

// BeginsClaim reports whether an event has begun the claim of a choice, which may have more than the request: the PF of
// a card takes the slices of all its VFs, and the policy of a port may have changed.
func BeginsClaim(before, after Server) bool {
	return after.ClaimedHost() != "" && (before.ClaimedHost() == "" || len(after.Choices) != len(before.Choices))
}

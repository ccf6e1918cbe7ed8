package lifecycle

import (
	"maps"
	"slices"

	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/resource"
)

// This file counts what ports guarantee, for quotas. The network service changes the amounts of a bound port with its
// QoS policy: it reserves the growth here before it writes the allocation in Placement, and reports the amounts of the
// ports when the change has ended. Compute records the amounts of a port that it has read before it claims them.

// ReserveGuarantees returns the server with what a change of policies gives its ports beside what they have. A change
// is reserved once.
func (s Server) ReserveGuarantees(change string, more resource.Amounts) Server {
	if _, known := s.Reserved[change]; known || !s.Ended.IsZero() {
		return s
	}
	s.Reserved = maps.Clone(s.Reserved)
	if s.Reserved == nil {
		s.Reserved = map[string]resource.Amounts{}
	}
	s.Reserved[change] = more
	return s
}

// ReportGuarantees returns the server with what ports of it have: a reserved change has ended, or compute has read
// them. A report about an older revision of a port than the last one is ignored. change may be empty.
func (s Server) ReportGuarantees(change string, ports map[string]Guarantee) Server {
	s.Reserved = maps.Clone(s.Reserved)
	if delete(s.Reserved, change); len(s.Reserved) == 0 {
		s.Reserved = nil
	}
	all := maps.Clone(s.Guarantees)
	if all == nil {
		all = map[string]Guarantee{}
	}
	for id, g := range ports {
		if old, known := all[id]; !known || g.Revision >= old.Revision {
			all[id] = g
		}
	}
	s.Guarantees = all
	return withoutOldGuarantees(s)
}

// WithPortToAttach returns the server with the port that a change of its ports is about to claim, as it was read.
func (s Server) WithPortToAttach(change string, p Port) Server {
	if s.PortChange == nil || s.PortChange.ID != change || s.PortChange.Device != nil || s.PortChange.ends() {
		return s
	}
	attach := *s.PortChange
	attach.Port, s.PortChange = &p, &attach
	return s
}

// withoutOldGuarantees returns the server without what is recorded in its ports, or belongs to ports that it has not.
func withoutOldGuarantees(s Server) Server {
	if len(s.Guarantees) == 0 {
		s.Guarantees = nil
		return s
	}
	ports := slices.Clone(s.Ports)
	if s.Move != nil {
		ports = append(ports, s.Move.From.Ports...)
	}
	if s.PortChange != nil && s.PortChange.Port != nil {
		ports = append(ports, *s.PortChange.Port)
	}
	kept := maps.Clone(s.Guarantees)
	maps.DeleteFunc(kept, func(id string, g Guarantee) bool {
		return !slices.ContainsFunc(ports, func(p Port) bool { return p.ID == id && p.Revision < g.Revision })
	})
	if s.Guarantees = kept; len(kept) == 0 {
		s.Guarantees = nil
	}
	return s
}

// guaranteeOf returns what a port requests: as it is in the record, or as it was reported later.
func (s Server) guaranteeOf(p Port) resource.Amounts {
	if g, later := s.Guarantees[p.ID]; later && g.Revision > p.Revision {
		return g.Amounts
	}
	return GroupAmounts(p.Groups)
}

// guaranteesOf returns what ports request together.
func (s Server) guaranteesOf(ports []Port) resource.Amounts {
	all := resource.Amounts{}
	for _, p := range ports {
		sumAmounts(all, s.guaranteeOf(p))
	}
	return all
}

// portChangeUse returns what the port that is being attached or detached has beside the ports of the record: its
// guarantee, and its device, which the claimed allocation has only while the guest has it.
func (s Server) portChangeUse() resource.Amounts {
	all := resource.Amounts{}
	c := s.PortChange
	switch {
	case c == nil:
		return all
	case c.Device != nil:
		all[c.Device.Requirement.Class] = 1
	}
	requested := s.PortAmounts[c.Request.Port]
	switch {
	case c.Port != nil && !slices.ContainsFunc(s.Ports, func(p Port) bool { return p.ID == c.Port.ID }):
		sumAmounts(all, s.guaranteeOf(*c.Port))
	case c.Port == nil && c.Detach == "":
		sumAmounts(all, requested)
	}
	if c.Port != nil && c.Detach == "" && c.Device == nil { // its device is not claimed yet
		sumAmounts(all, withoutPortClasses(requested))
	}
	return all
}

// withoutPortClasses returns amounts without the classes that ports request with a QoS policy.
func withoutPortClasses(amounts resource.Amounts) resource.Amounts {
	rest := resource.Amounts{}
	for class, n := range amounts {
		if !bandwidth.IsPortClass(class) {
			rest[class] = n
		}
	}
	return rest
}

// sumAmounts adds amounts to others.
func sumAmounts(all, more resource.Amounts) {
	for class, n := range more {
		all[class] += n
	}
}

// GroupAmounts returns what request groups request together.
func GroupAmounts(groups []resource.Group) resource.Amounts {
	all := resource.Amounts{}
	for _, g := range groups {
		sumAmounts(all, g.Resources)
	}
	return all
}

package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/pci"
)

// deviceRequests are the requests of operators about the service of devices, in compute's database.
type deviceRequests struct {
	disabled map[pci.Address]pci.Disablement
	reported map[string]bool        // disablements that the agent has reported, by id
	enable   map[string]pci.Address // requests to enable devices, by id
}

func (r deviceRequests) clone() deviceRequests {
	return deviceRequests{maps.Clone(r.disabled), maps.Clone(r.reported), maps.Clone(r.enable)}
}

// made returns the requests, with maps that may be changed.
func (r *deviceRequests) made() *deviceRequests {
	if r.disabled == nil {
		*r = deviceRequests{map[pci.Address]pci.Disablement{}, map[string]bool{}, map[string]pci.Address{}}
	}
	return r
}

// assign adds the requests to the assignments of the host.
func (r deviceRequests) assign(a *host.Assignments, now time.Time) {
	for _, at := range slices.SortedFunc(maps.Keys(r.disabled), pci.Address.Compare) {
		if d := r.disabled[at]; !d.Expired(now) {
			a.DisabledDevices = append(a.DisabledDevices, host.WriteDisabled(d))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(r.enable)) {
		a.EnableDevices = append(a.EnableDevices, host.EnableDevice{ID: id, Address: r.enable[id].String()})
	}
}

// withDisabled marks the devices that operators have disabled and that the agent has not reported yet.
func (r deviceRequests) withDisabled(h schedule.Host) schedule.Host {
	for _, at := range slices.SortedFunc(maps.Keys(r.disabled), pci.Address.Compare) {
		if d := r.disabled[at]; !r.reported[d.ID] {
			h = h.WithDisabled(d)
		}
	}
	return h
}

// service is what the simulation knows of the devices of a machine, for checkService.
type service struct {
	out     map[pci.Address]pci.Disablement // oracle: disabled, and the agent has reported that
	holders map[pci.Address]string          // oracle: the server that has each device, or has had it last
	enabled map[string]bool                 // oracle: disablements that an operator has ended, by id
	lost    bool                            // oracle: its agent may not know what it has reserved in Placement
}

// enable notes the disablements that an operator ends: their agent may receive that at any time from now on, also after
// compute's database was restored to a time before.
func (s *service) enable(requests map[string]pci.Address) {
	if s.enabled == nil {
		s.enabled = map[string]bool{}
	}
	for id := range requests {
		s.enabled[id] = true
	}
}

// lose notes that the agent of a machine may not know what it has reserved, and returns a copy for another machine.
func (s *service) lose() service {
	s.lost = true
	return service{maps.Clone(s.out), maps.Clone(s.holders), maps.Clone(s.enabled), true}
}

package operator

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/server/request"
)

// The statuses of a compute service. Servers are scheduled only to enabled ones.
const (
	serviceEnabled  = "enabled"
	serviceDisabled = "disabled"
)

// hostState is a host as a hypervisor and as a compute service.
type hostState struct {
	schedule.Host
	position int // in the list of all hosts, from 0
	up       bool
	dead     bool    // an operator has declared it dead
	status   string  // of its service: enabled or disabled
	reason   *string // why it is disabled; nil: none is given
	zone     string  // availability zone
}

// hostStates lists the hosts whose agents have reported, sorted by name.
func (s *Handlers) hostStates(ctx context.Context) ([]hostState, error) {
	hosts, dead, err := s.HostsAndDead(ctx)
	if err != nil {
		return nil, err
	}
	disabled, err := s.Store.DisabledHosts(ctx)
	if err != nil {
		return nil, err
	}
	zones, err := s.Zones(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]hostState, 0, len(hosts))
	for i, h := range hosts {
		one := hostState{Host: h, position: i, dead: slices.Contains(dead, h.Name), status: serviceEnabled,
			zone: zones.Zone(h.Name)}
		one.up = !one.dead && s.Works(h)
		if why, off := disabled[h.Name]; off {
			one.status, one.reason = serviceDisabled, request.OrNull(why)
		}
		list = append(list, one)
	}
	return list, nil
}

// serviceID returns the UUID of a service of a host (2.53). It is derived from the host name, so it never changes.
func serviceID(binary, host string) string {
	return uuid.NewSHA1(uuid.NameSpaceDNS, []byte(binary+"."+host)).String()
}

package lifecycle

import "fmt"

// WithZones returns the server with the zones that hosts have now; nil: they are not compared. They are not a part of
// the record: the store has them in each transaction that changes the server.
func (s Server) WithZones(z Zones) Server {
	s.zones = z
	return s
}

// refuseChoice returns why the first choice must not be claimed although it was found: its zone is not that of the
// search any more, or the group of the server has changed; empty: it may be claimed.
func (s Server) refuseChoice() string {
	choice := s.Choices[0]
	if s.zones != nil && choice.Zone != "" && s.zones.Zone(choice.Host) != choice.Zone {
		return fmt.Sprintf("its availability zone has changed from %s to %s", choice.Zone, s.zones.Zone(choice.Host))
	}
	_, why := s.ServerGroup().Refuse(choice.Host)
	return why
}

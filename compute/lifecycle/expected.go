package lifecycle

import (
	"slices"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Expectation is what a consumer of a server must have in Placement because of its stay on a host.
type Expectation struct {
	Consumer   string
	Also       []string            // consumers that may have it instead while it is transferred
	Root       provider.ID         // root provider of the host at the time of the claim
	Allocation resource.Allocation // what was claimed. Placement may have more: agents add shares of devices
}

// Expected lists what the consumers of the server must have in Placement because of their stays on a host. It leaves
// out what is about to be released, and what is not claimed yet.
func (s Server) Expected(host string) []Expectation {
	var list []Expectation
	for _, stay := range s.Residences() {
		if stay.Host != host || stay.Gone || stay.Choice == nil {
			continue
		}
		one := Expectation{Consumer: stay.Consumer, Root: stay.Choice.Root, Allocation: stay.Choice.Allocation}
		if m := s.Move; m != nil && slices.Contains([]State{MovingAllocations, RestoringAllocations, RevertBlocked}, s.State) {
			one.Also = []string{s.ID, m.Consumer, m.From.Consumer}
		}
		list = append(list, one)
	}
	return list
}

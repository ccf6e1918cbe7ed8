package lifecycle

import (
	"slices"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Expectation is what a consumer of a server must have in Placement because of its stay on a host.
type Expectation struct {
	Consumer   string
	Also       []string            // consumers that may have it in its place, while it changes hands
	Root       provider.ID         // root provider of the host when it was claimed
	Allocation resource.Allocation // what was claimed; agents add shares of devices where Placement was not asked for them
}

// Expected lists what the server's consumers must have in Placement because of their stays on a host. What is about to be given back, or has
// not been claimed yet, is left out: Placement may have it or not.
func (s Server) Expected(host string) []Expectation {
	var list []Expectation
	for _, stay := range s.Stays() {
		if stay.Host != host || stay.Gone || stay.Choice == nil {
			continue
		}
		one := Expectation{Consumer: stay.Consumer, Root: stay.Choice.Root, Allocation: stay.Choice.Allocation}
		if m := s.Move; m != nil && slices.Contains([]State{Rekeying, Restoring, Stranded}, s.State) {
			one.Also = []string{s.ID, m.As, m.From.Consumer}
		}
		list = append(list, one)
	}
	return list
}

package device

import (
	"fmt"
	"maps"
	"slices"

	"github.com/openberth/berth/pci"
)

// Disable returns the set in which exactly these disablements are in force. Held devices keep their holders. The
// disablements remain when devices are offered, claimed or freed, also of addresses that the set does not have.
func (s Set) Disable(list []pci.Disablement) Set {
	s.disabled = make(map[ID]string, len(list))
	for _, d := range list {
		s.disabled[PCI(d.Address)] = d.Reason
	}
	return s
}

// whyDisabled returns why a device is given to no further server, as a clause; empty if it can be. A PF is disabled
// with any of its VFs, because a server that gets a PF gets all of it.
func (s Set) whyDisabled(id ID) string {
	if len(s.disabled) == 0 {
		return ""
	}
	if reason, is := s.disabled[id]; is {
		return "it is disabled: " + reason
	}
	if pf := s.entries[id].Device.Parent; pf != nil {
		if reason, is := s.disabled[PCI(*pf)]; is {
			return fmt.Sprintf("its PF %s is disabled: %s", pf, reason)
		}
		return ""
	}
	for _, vf := range slices.SortedFunc(maps.Keys(s.disabled), ID.Compare) {
		if e, there := s.entries[vf]; there && e.isVFOf(id) {
			return fmt.Sprintf("its VF %s is disabled: %s", vf, s.disabled[vf])
		}
	}
	return ""
}

package pci

import "time"

// Disablement takes a device out of service: it is given to no further server, and its holder keeps it.
type Disablement struct {
	ID      string    // random
	Address Address   // of the device; a PF is disabled with all its VFs
	Reason  string    // of the operator, or what the health check has found
	Since   time.Time // to the second
	Until   time.Time // to the second; zero: until the device is enabled
	Check   bool      // the health check of the host's agent has found it; false: an operator has disabled the device
}

// Expired reports whether a disablement has ended by itself.
func (d Disablement) Expired(now time.Time) bool { return !d.Until.IsZero() && !now.Before(d.Until) }

// Affecting returns, for each device, the disablements that keep it from further servers: its own, those of its PF, and
// those of its VFs, because a server that gets a PF gets all of it. Devices without one are omitted.
func Affecting(list []Disablement, devices []Device) map[Address][]Disablement {
	out := map[Address][]Disablement{}
	for _, x := range list {
		var parent *Address
		for _, d := range devices {
			if d.Address == x.Address {
				parent = d.Parent
			}
		}
		for _, d := range devices {
			if d.Address == x.Address || d.Parent != nil && *d.Parent == x.Address || parent != nil && *parent == d.Address {
				out[d.Address] = append(out[d.Address], x)
			}
		}
	}
	return out
}

// Package vfconfig computes how the VFs of a host must be configured for the ports of its guests, and the operations
// that lead there.
//
// A VF is configured through the interface of its PF: its MAC address, its VLAN, its rates, the spoof check, trust and
// the link state. The guest that has the VF can change none of them unless the VF is trusted.
package vfconfig

import (
	"strings"

	"github.com/openberth/berth/agent/device"
)

// Assigned is a VF that a guest of this host has, or is about to get.
type Assigned struct {
	Device device.ID
	Server string // UUID for users
	Port   Port   // as far as compute assigned it: ID, MAC and VLAN; without an ID: compute assigned none
}

// Port is what the configuration of a VF needs of a port. Rates are in kilobits per second; 0: none. Egress is what the
// guest sends: the kernel's tx rate of the VF.
type Port struct {
	ID         string
	MAC        string
	VLAN       int // 0: none
	AdminUp    bool
	Trusted    bool
	SpoofCheck bool
	MinEgress  int
	MaxEgress  int
	MaxIngress int
}

// Settings is the configuration of a VF. Rates are in megabits per second; 0: none.
type Settings struct {
	MAC        string // six bytes in lower case; NoMAC: the driver of the VF chooses one
	VLAN       int    // 0: none
	MinRate    int
	MaxRate    int
	SpoofCheck bool
	Trusted    bool
	Disabled   bool // the link is down; false: it follows the link of the PF
}

// NoMAC is the MAC address of a VF to which none was assigned.
const NoMAC = "00:00:00:00:00:00"

// Unassigned returns the configuration of a VF that no port uses: that of a VF which was just created.
func Unassigned() Settings { return Settings{MAC: NoMAC, SpoofCheck: true} }

// Settings returns the configuration of the port's VF. The kernel takes rates in megabits per second. A guarantee is
// rounded up, so that the VF has at least the guaranteed rate. A limit is rounded down, but never below the guarantee
// and never to 0, which means no limit.
func (p Port) Settings() Settings {
	s := Settings{MAC: strings.ToLower(p.MAC), VLAN: p.VLAN, SpoofCheck: p.SpoofCheck && !p.Trusted, Trusted: p.Trusted,
		Disabled: !p.AdminUp, MinRate: (p.MinEgress + 999) / 1000}
	if p.MaxEgress > 0 {
		s.MaxRate = max(p.MaxEgress/1000, s.MinRate, 1)
	}
	return s
}

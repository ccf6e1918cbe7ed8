package vfconfig

import (
	"fmt"
	"slices"
)

// Attribute is a part of a VF's configuration that the kernel sets in one call.
type Attribute string

// The attributes.
const (
	MAC        Attribute = "MAC address"
	VLAN       Attribute = "VLAN"
	Rates      Attribute = "rates"
	SpoofCheck Attribute = "spoof check"
	Trust      Attribute = "trust"
	LinkState  Attribute = "link state"
)

// attributes lists the attributes in the order in which they are set: a VF is in its network before it is trusted or
// its link comes up.
var attributes = []Attribute{MAC, VLAN, Rates, SpoofCheck, Trust, LinkState}

// Operation sets one attribute of a VF to its value in Settings.
type Operation struct {
	Attribute Attribute
	Settings  Settings
}

// Operations returns what changes a VF from its present configuration to another one, in order. With the same
// configuration it returns nothing.
func Operations(present, want Settings) (out []Operation) {
	for _, a := range attributes {
		if !same(a, present, want) {
			out = append(out, Operation{a, want})
		}
	}
	return out
}

// Corrections returns what changes the VF of a running guest to the configuration of its port. The guest of a trusted
// VF may have changed its MAC address, which is kept.
func Corrections(present, want Settings) []Operation {
	if want.Trusted && present.MAC != NoMAC {
		want.MAC = present.MAC
	}
	return Operations(present, want)
}

// ResetOperations returns what changes a VF from its present configuration to that of a VF without a port. The order is
// the reverse: trust ends first.
func ResetOperations(present Settings) []Operation {
	out := Operations(present, Unassigned())
	slices.Reverse(out)
	return out
}

// same reports whether two configurations have the same value of an attribute.
func same(a Attribute, x, y Settings) bool {
	switch a {
	case MAC:
		return x.MAC == y.MAC
	case VLAN:
		return x.VLAN == y.VLAN
	case Rates:
		return x.MinRate == y.MinRate && x.MaxRate == y.MaxRate
	case SpoofCheck:
		return x.SpoofCheck == y.SpoofCheck
	case Trust:
		return x.Trusted == y.Trusted
	default:
		return x.Disabled == y.Disabled
	}
}

// Necessary reports whether a guest must not have the VF without this attribute: without its MAC address and its VLAN
// the VF is in another network than the port.
func (o Operation) Necessary() bool { return o.Attribute == MAC || o.Attribute == VLAN }

// WithoutGuarantee returns the operation that sets only the limit of the rates: many drivers have no guaranteed rates.
// ok is false if the operation sets no guarantee.
func (o Operation) WithoutGuarantee() (limit Operation, ok bool) {
	if o.Attribute != Rates || o.Settings.MinRate == 0 {
		return o, false
	}
	o.Settings.MinRate = 0
	return o, true
}

// String describes the operation, such as "VLAN 7".
func (o Operation) String() string {
	s := o.Settings
	switch o.Attribute {
	case MAC:
		return "MAC address " + s.MAC
	case VLAN:
		return fmt.Sprintf("VLAN %d", s.VLAN)
	case Rates:
		return fmt.Sprintf("a rate of at least %d and at most %s Mbit/s", s.MinRate, limit(s.MaxRate))
	case SpoofCheck:
		return "spoof check " + onOff(s.SpoofCheck)
	case Trust:
		return "trust " + onOff(s.Trusted)
	default:
		return "link " + onOff(!s.Disabled)
	}
}

func limit(rate int) string {
	if rate == 0 {
		return "any"
	}
	return fmt.Sprint(rate)
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

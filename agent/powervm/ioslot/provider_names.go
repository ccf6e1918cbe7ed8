package ioslot

import (
	"strings"

	"github.com/openberth/berth/fault"
)

// namePrefix begins the names of providers of slots. Names of other kinds of providers, such as those of physical
// functions, begin differently (R28).
const namePrefix = "PowerVM IOSlot "

// ProviderName returns the name of a slot's provider. Names are unique in a whole Placement and DRC indices only on a
// system, so the name contains the host (C7). With an empty host it is the form of the specification, which suits one
// host only.
func ProviderName(host string, index Index) string {
	if host == "" {
		return namePrefix + index.String()
	}
	return namePrefix + host + " " + index.String()
}

// ParseProviderName reads a name in either form. ok is false for a name that does not begin like that of a slot. The
// fault is Invalid for one that does, but does not end in an index: it must not be skipped, because a guest without
// one of its devices would be built (R48).
func ParseProviderName(name string) (host string, index Index, ok bool, err error) {
	rest, ok := strings.CutPrefix(name, namePrefix)
	if !ok {
		return "", 0, false, nil
	}
	host, digits, two := strings.Cut(rest, " ")
	if !two {
		host, digits = "", rest
	}
	index, valid := ParseIndex(digits)
	if !valid || two && host == "" {
		return "", 0, true, fault.New(fault.Invalid, "the provider %q is named like that of an "+
			"I/O slot, but not %q or %q; rename or delete it", name, namePrefix+"INDEX", namePrefix+"HOST INDEX")
	}
	return host, index, true, nil
}

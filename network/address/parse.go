package address

import (
	"fmt"
	"net/netip"
)

// Parse parses an IP address without a zone. A zone is a part of one host's configuration, and may have any bytes: it
// must not reach the files and commands of hosts.
func Parse(text string) (netip.Addr, error) {
	a, err := netip.ParseAddr(text)
	if err == nil && a.Zone() != "" {
		return netip.Addr{}, fmt.Errorf("%q has a zone, which only one host knows; leave out all from %% on", text)
	}
	return a, err
}

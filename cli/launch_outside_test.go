package cli

import (
	"net"
	"strings"
	"testing"
)

// The note names the host from which ssh reaches a server, unless this machine has an address in its network.
func TestServerOutsideOfOwnNetworks(t *testing.T) {
	local := []net.Addr{&net.IPNet{IP: net.IPv4(127, 0, 0, 1), Mask: net.CIDRMask(8, 32)},
		&net.IPNet{IP: net.IPv4(10, 66, 0, 2), Mask: net.CIDRMask(24, 32)}}
	if got := outside(local, "10.66.0.5", "two"); got != "" {
		t.Error(got)
	}
	if got := outside(local, "10.67.0.5", "two"); !strings.Contains(got, "run ssh on host two") {
		t.Error(got)
	}
	if got := outside(local, "fd00::5", ""); !strings.Contains(got, "a host that has servers of the network") {
		t.Error(got)
	}
}

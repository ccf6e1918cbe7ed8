package bridgelink

import (
	"net"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
)

// A route with several next hops leaves by the link of each.
func TestRouteWithSeveralHops(t *testing.T) {
	plain := netlink.Route{LinkIndex: 2}
	several := netlink.Route{MultiPath: []*netlink.NexthopInfo{{LinkIndex: 3}, {LinkIndex: 4}}}
	for link, want := range map[int][2]bool{2: {true, false}, 3: {false, true}, 4: {false, true}, 5: {false, false}} {
		if got := [2]bool{leavesBy(plain, link), leavesBy(several, link)}; got != want {
			t.Errorf("link %d: %v, want %v", link, got, want)
		}
	}
}

// Only links with a default route that a router has advertised go on accepting advertisements.
func TestLearnsRouter(t *testing.T) {
	lan := &net.IPNet{IP: net.ParseIP("2001:db8::"), Mask: net.CIDRMask(64, 128)}
	anywhere := &net.IPNet{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)}
	routes := []netlink.Route{{LinkIndex: 2, Protocol: syscall.RTPROT_RA},
		{LinkIndex: 3, Protocol: syscall.RTPROT_RA, Dst: lan}, {LinkIndex: 4, Protocol: syscall.RTPROT_STATIC},
		{Protocol: syscall.RTPROT_RA, Dst: anywhere, MultiPath: []*netlink.NexthopInfo{{LinkIndex: 5}}}}
	for link, want := range map[int]bool{2: true, 3: false, 4: false, 5: true, 6: false} {
		if got := learnsRouter(routes, link); got != want {
			t.Errorf("link %d: %v", link, got)
		}
	}
}

package bridgelink

import (
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

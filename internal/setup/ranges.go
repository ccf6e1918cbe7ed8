package setup

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/openberth/berth/fault"
)

// freeRange returns the first /24 of the ranges for the network of the servers that overlaps none of those of the host.
func freeRange(taken []netip.Prefix) (string, error) {
next:
	for n := range 256 {
		candidate := netip.MustParsePrefix(fmt.Sprintf("10.%d.0.0/24", (66+n)%256))
		for _, t := range taken {
			if t.Bits() > 0 && t.Overlaps(candidate) {
				continue next
			}
		}
		return candidate.String(), nil
	}
	return "", fault.New(fault.Conflict, "this machine has routes into every range 10.x.0.0/24; give a free range with "+
		"--subnet")
}

// hostRanges returns the ranges to which this machine has routes, and its own addresses.
func hostRanges() []netip.Prefix {
	var all []netip.Prefix
	if text, err := os.ReadFile("/proc/net/route"); err == nil {
		all = parseRoutes(string(text))
	}
	addresses, _ := net.InterfaceAddrs() // without them the routes remain
	for _, a := range addresses {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			all = append(all, p)
		}
	}
	return all
}

// parseRoutes parses /proc/net/route, whose addresses are hexadecimal in the byte order of the machine, little-endian.
// The default route is left out.
func parseRoutes(text string) (all []netip.Prefix) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 8 {
			continue
		}
		to, err1 := strconv.ParseUint(fields[1], 16, 32)
		mask, err2 := strconv.ParseUint(fields[7], 16, 32)
		if err1 != nil || err2 != nil || mask == 0 {
			continue
		}
		ip := netip.AddrFrom4([4]byte{byte(to), byte(to >> 8), byte(to >> 16), byte(to >> 24)})
		ones, _ := net.IPv4Mask(byte(mask), byte(mask>>8), byte(mask>>16), byte(mask>>24)).Size()
		all = append(all, netip.PrefixFrom(ip, ones))
	}
	return all
}

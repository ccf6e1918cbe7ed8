package nftables

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/openberth/berth/agent/groupfilter"
	"github.com/openberth/berth/securitygroup"
)

// The numbers of extension headers of IPv6.
const (
	hopByHop    = 0
	fragmentOf  = 44
	destination = 60
)

// options is an extension header of IPv6 with eight bytes of padding.
func options(next byte) []byte { return []byte{next, 0, 1, 4, 0, 0, 0, 0} }

// piece is a fragment header of IPv6. at is the offset in bytes.
func piece(id, next byte, at int, more bool) []byte {
	flags := uint16(at)
	if more {
		flags |= 1
	}
	return append(binary.BigEndian.AppendUint16([]byte{next, 0}, flags), 1, 2, 3, id)
}

// packet6 returns a packet of IPv6 with parts behind its header.
func packet6(from, to netip.Addr, next byte, parts ...[]byte) []byte {
	var body []byte
	for _, p := range parts {
		body = append(body, p...)
	}
	ip := []byte{0x60, 0, 0, 0, 0, byte(len(body)), next, 255}
	return append(append(append(ip, from.AsSlice()...), to.AsSlice()...), body...)
}

// packet4 returns a packet of IPv4 with options and a part of its body.
func packet4(from, to netip.Addr, id byte, options []byte, at int, more bool, body []byte) []byte {
	length := 20 + len(options)
	ip := []byte{0x40 | byte(length/4), 0, 0, byte(length + len(body)), 0, id, 0, 0, 64, securitygroup.UDP, 0, 0}
	flags := uint16(at / 8)
	if more {
		flags |= 0x2000
	}
	binary.BigEndian.PutUint16(ip[6:], flags)
	ip = append(append(append(ip, from.AsSlice()...), to.AsSlice()...), options...)
	binary.BigEndian.PutUint16(ip[10:], fold(sum16(0, ip)))
	return append(ip, body...)
}

// hidden is a packet of a guest, as one or two frames. The text of its marker is in one block of eight bytes, so that
// another fragmentation does not cut it.
type hidden struct {
	name    string
	marker  string
	packets [][]byte
	passes  bool
	// The first fragment lacks headers (RFC 8200, section 4.5): a kernel that tracks connections in the bridge keeps the
	// second one until it is forgotten.
	incomplete bool
}

// hiddenFrames returns packets that hide what they are behind options or in fragments. id is that of the first one.
func hiddenFrames(g, other *guest, id byte) (all []hidden) {
	local, _ := securitygroup.LinkLocal(g.mac)
	nodes, stranger := netip.MustParseAddr("ff02::1"), netip.MustParseAddr("10.0.0.77")
	marker := func() string { return fmt.Sprintf("frame%03d", id) }
	add := func(name string, passes bool, packets ...[]byte) {
		all = append(all, hidden{name, marker(), packets, passes, false})
		id++
	}
	for name, kind := range map[string]byte{"neighbour advertisement": 136, "router advertisement": 134, "redirect": 137} {
		message := func() []byte {
			body := append([]byte{0x20, 0, 0, 0}, other.six.AsSlice()...)
			return icmp6(local, nodes, kind, append(append(body, 2, 1), append(macBytes(g.mac), marker()...)...))[40:]
		}
		add(name+" behind options", false, packet6(local, nodes, hopByHop, options(securitygroup.ICMPv6), message()))
		add(name+" as one fragment", false, packet6(local, nodes, fragmentOf, piece(id, securitygroup.ICMPv6, 0, false),
			message()))
		add(name+" in the second fragment", false,
			packet6(local, nodes, fragmentOf, piece(id, destination, 0, true), options(securitygroup.ICMPv6)),
			packet6(local, nodes, fragmentOf, piece(id, destination, 8, false), message()))
		all[len(all)-1].incomplete = true
	}
	four := func(name string, passes bool, from netip.Addr, sport, dport int) {
		message := func() []byte { return udp4(from, other.four, sport, dport, marker())[20:] }
		add(name+" with options", passes, packet4(from, other.four, id, []byte{1, 1, 1, 1}, 0, false, message()))
		add(name+" in fragments", passes, packet4(from, other.four, id, nil, 0, true, message()[:8]),
			packet4(from, other.four, id, nil, 8, false, message()[8:]))
	}
	four("a true source", true, g.four, 9, 9)
	four("a forged source", false, stranger, 9, 9)
	four("an offer of DHCP", false, g.four, 67, 68)
	four("a request of DHCP without a client", false, g.four, 68, 67)
	return all
}

// TestHiddenFrames: extension headers, options and fragments hide nothing that a guest may not send. What arrives
// without port security shows that the frames are well-formed: all of it in a bridge that never had a port with port
// security, and what the kernel's tracking of connections lets through in one that had.
func TestHiddenFrames(t *testing.T) {
	h := newHost(t)
	h.bridge("br1")
	a, b := h.connect("br1", 1), h.connect("br1", 2)
	out, in := a.packetSocket(), b.packetSocket()
	s := groupfilter.State{Groups: map[string]securitygroup.Group{"open": openGroup("open")}}
	for round, secured := range []bool{false, true, false} {
		p, q := a.port("br1", "open"), b.port("br1")
		p.Secured, q.Secured = secured, false
		s.Ports = []groupfilter.Port{p, q}
		h.apply(s)
		for _, f := range hiddenFrames(a, b, byte(1+50*round)) {
			for _, data := range f.packets {
				kind := uint16(0x0800)
				if data[0]>>4 == 6 {
					kind = 0x86dd
				}
				if _, err := syscall.Write(out, ethernet(everyone, a.mac, kind, data)); err != nil {
					t.Errorf("%s: %v", f.name, err)
				}
			}
			want, wait := f.passes || !secured && !(f.incomplete && round > 0), 100*time.Millisecond
			if want {
				wait = patience(true)
			}
			if got := receives(in, f.marker, wait); got != want {
				t.Errorf("%s, round %d, secured %t: arrives %t, want %t", f.name, round, secured, got, want)
			}
		}
	}
}

package nftables

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/openberth/berth/agent/groupfilter"
	"github.com/openberth/berth/securitygroup"
)

// packetSocket opens a socket for frames of any kind on the interface of a guest.
func (g *guest) packetSocket() (fd int) {
	g.t.Helper()
	g.do(func() {
		all := int(binary.BigEndian.Uint16([]byte{0, 3})) // ETH_P_ALL in network byte order
		swapped := all>>8 | all&0xff<<8
		var err error
		if fd, err = syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW, swapped); err != nil {
			g.t.Error(err)
			return
		}
		i, err := net.InterfaceByName("eth0")
		if err == nil {
			err = syscall.Bind(fd, &syscall.SockaddrLinklayer{Protocol: uint16(swapped), Ifindex: i.Index})
		}
		if err != nil {
			g.t.Error(err)
		}
		_ = syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &syscall.Timeval{Usec: 50_000})
	})
	g.t.Cleanup(func() { syscall.Close(fd) })
	return fd
}

// receives reports whether frames with a text arrive within a time.
func receives(fd int, text string, wait time.Duration) bool {
	b := make([]byte, 2048)
	for end := time.Now().Add(wait); time.Now().Before(end); {
		n, _, err := syscall.Recvfrom(fd, b, 0)
		if err == nil && bytes.Contains(b[:n], []byte(text)) {
			return true
		}
	}
	return false
}

func macBytes(mac string) []byte {
	m, err := net.ParseMAC(mac)
	if err != nil {
		panic(err)
	}
	return m
}

// ethernet returns a frame.
func ethernet(to, from string, kind uint16, parts ...[]byte) []byte {
	f := append(macBytes(to), macBytes(from)...)
	return append(binary.BigEndian.AppendUint16(f, kind), bytes.Join(parts, nil)...)
}

func sum16(sum uint32, data []byte) uint32 {
	for i := 0; i < len(data); i += 2 {
		word := uint32(data[i]) << 8
		if i+1 < len(data) {
			word |= uint32(data[i+1])
		}
		sum += word
	}
	return sum
}

func fold(sum uint32) uint16 {
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

// udp4 returns a datagram of IPv4.
func udp4(from, to netip.Addr, sport, dport int, text string) []byte {
	u := binary.BigEndian.AppendUint16(nil, uint16(sport))
	u = binary.BigEndian.AppendUint16(u, uint16(dport))
	u = append(binary.BigEndian.AppendUint16(u, uint16(8+len(text))), 0, 0)
	u = append(u, text...)
	ip := []byte{0x45, 0, 0, byte(20 + len(u)), 0, 1, 0, 0, 64, securitygroup.UDP, 0, 0}
	ip = append(append(ip, from.AsSlice()...), to.AsSlice()...)
	binary.BigEndian.PutUint16(ip[10:], fold(sum16(0, ip)))
	return append(ip, u...)
}

// icmp6 returns a message of ICMPv6 with a text after it.
func icmp6(from, to netip.Addr, kind byte, body []byte) []byte {
	m := append([]byte{kind, 0, 0, 0}, body...)
	sum := sum16(0, from.AsSlice())
	sum = sum16(sum, to.AsSlice()) + uint32(len(m)) + securitygroup.ICMPv6
	binary.BigEndian.PutUint16(m[2:], fold(sum16(sum, m)))
	ip := []byte{0x60, 0, 0, 0, 0, byte(len(m)), securitygroup.ICMPv6, 255}
	return append(append(append(ip, from.AsSlice()...), to.AsSlice()...), m...)
}

// arp returns a request or an answer of ARP, with a text behind it.
func arp(operation byte, mac string, from, to netip.Addr, text string) []byte {
	a := append([]byte{0, 1, 8, 0, 6, 4, 0, operation}, macBytes(mac)...)
	a = append(append(a, from.AsSlice()...), 0, 0, 0, 0, 0, 0)
	return append(append(a, to.AsSlice()...), text...)
}

const everyone = "ff:ff:ff:ff:ff:ff"

// frame is a frame that a guest sends, and whether it must arrive.
type frame struct {
	name   string
	data   []byte
	passes bool
}

// framesOf returns frames of a guest with forged and with true sources. Each contains its name.
func framesOf(g, other *guest) []frame {
	const ip, ip6, arpType, vlan = 0x0800, 0x86dd, 0x0806, 0x8100
	forged, stranger := "fa:16:3e:99:99:99", netip.MustParseAddr("10.0.0.77")
	local, _ := securitygroup.LinkLocal(g.mac)
	nodes, none6 := netip.MustParseAddr("ff02::1"), netip.IPv6Unspecified()
	tag := func(inner uint16, data []byte) []byte {
		return append(binary.BigEndian.AppendUint16([]byte{0, 0}, inner), data...)
	}
	neighbour := func(target netip.Addr, text string) []byte {
		body := append([]byte{0x20, 0, 0, 0}, target.AsSlice()...)
		return append(append(append(body, 2, 2), macBytes(g.mac)...), text...)
	}
	pad := func(text string) []byte { return []byte(text + "0123456789abcdef") }
	send := func(name string, passes bool, kind uint16, source string, make func(text string) []byte) frame {
		return frame{name, ethernet(everyone, source, kind, make(name)), passes}
	}
	udp := func(from netip.Addr, sport, dport int) func(string) []byte {
		return func(text string) []byte { return udp4(from, other.four, sport, dport, text) }
	}
	dhcp := func(from netip.Addr, client string) func(string) []byte {
		return func(text string) []byte {
			message := append(append(make([]byte, 28), macBytes(client)...), text...)
			return udp4(from, other.four, 68, 67, string(message))
		}
	}
	four := func(n byte, at netip.Addr, mac string) func(string) []byte {
		return func(text string) []byte { return arp(n, mac, at, other.four, text) }
	}
	six := func(from netip.Addr, kind byte, body func(string) []byte) func(string) []byte {
		return func(text string) []byte { return icmp6(from, nodes, kind, body(text)) }
	}
	of := func(target netip.Addr) func(string) []byte {
		return func(text string) []byte { return neighbour(target, text) }
	}
	all := []frame{
		send("true-source", true, ip, g.mac, udp(g.four, 9, 9)),
		send("forged-address", false, ip, g.mac, udp(stranger, 9, 9)),
		send("forged-mac", false, ip, forged, udp(g.four, 9, 9)),
		send("pair-address", true, ip, g.mac, udp(netip.MustParseAddr("10.9.0.5"), 9, 9)),
		send("pair-address-and-mac", true, ip, "fa:16:3e:aa:aa:aa", udp(netip.MustParseAddr("10.8.0.5"), 9, 9)),
		send("address-of-another-pair", false, ip, "fa:16:3e:aa:aa:aa", udp(g.four, 9, 9)),
		send("dhcp-discover", true, ip, g.mac, dhcp(netip.IPv4Unspecified(), g.mac)),
		send("dhcp-renewal", true, ip, g.mac, dhcp(g.four, g.mac)),
		send("dhcp-of-a-pair", true, ip, g.mac, dhcp(g.four, "fa:16:3e:aa:aa:aa")),
		send("dhcp-decline-for-another", false, ip, g.mac, dhcp(netip.IPv4Unspecified(), other.mac)),
		send("dhcp-release-for-another", false, ip, g.mac, dhcp(g.four, other.mac)),
		send("dhcp-without-client", false, ip, g.mac, udp(netip.IPv4Unspecified(), 68, 67)),
		send("zero-address", false, ip, g.mac, udp(netip.IPv4Unspecified(), 68, 69)),
		send("dhcp-offer", false, ip, g.mac, udp(g.four, 67, 68)),
		send("arp", true, arpType, g.mac, four(1, g.four, g.mac)),
		send("arp-answer", true, arpType, g.mac, four(2, g.four, g.mac)),
		send("arp-probe", true, arpType, g.mac, four(1, netip.IPv4Unspecified(), g.mac)),
		send("arp-pair", true, arpType, g.mac, four(2, netip.MustParseAddr("10.9.0.5"), g.mac)),
		send("arp-forged-address", false, arpType, g.mac, four(2, stranger, g.mac)),
		send("arp-forged-mac-inside", false, arpType, g.mac, four(2, g.four, forged)),
		send("neighbour", true, ip6, g.mac, six(local, 136, of(g.six))),
		send("neighbour-forged-target", false, ip6, g.mac, six(local, 136, of(other.six))),
		send("neighbour-solicitation", true, ip6, g.mac, six(none6, 135, of(other.six))),
		send("neighbour-forged-source", false, ip6, g.mac, six(other.six, 136, of(g.six))),
		send("router-advertisement", false, ip6, g.mac, six(local, 134, pad)),
		send("redirect", false, ip6, g.mac, six(local, 137, pad)),
		send("vlan-zero", false, vlan, g.mac, func(text string) []byte { return tag(ip, udp(g.four, 9, 9)(text)) }),
		send("vlan-zero-forged", false, vlan, g.mac, func(text string) []byte { return tag(ip, udp(stranger, 9, 9)(text)) }),
		send("other-protocol", false, 0x88cc, g.mac, pad),
	}
	return all
}

// TestForgedFrames sends frames with forged sources: those that only other hosts, routers and DHCP servers may send.
// Without port security all of them arrive.
func TestForgedFrames(t *testing.T) {
	h := newHost(t)
	h.bridge("br1")
	a, b := h.connect("br1", 1), h.connect("br1", 2)
	out, in := a.packetSocket(), b.packetSocket()
	s := groupfilter.State{Groups: map[string]securitygroup.Group{"open": openGroup("open")}}
	p, q := a.port("br1", "open"), b.port("br1")
	p.Pairs = []securitygroup.Pair{{Address: netip.MustParsePrefix("10.9.0.0/24")},
		{MAC: "fa:16:3e:aa:aa:aa", Address: netip.MustParsePrefix("10.8.0.5/32")}}
	for _, secured := range []bool{true, false} {
		p.Secured, q.Secured = secured, false
		s.Ports = []groupfilter.Port{p, q}
		h.apply(s)
		for _, f := range framesOf(a, b) {
			if _, err := syscall.Write(out, f.data); err != nil {
				t.Errorf("%s: %v %s", f.name, err, hex.EncodeToString(f.data))
			}
			wait := 100 * time.Millisecond
			want := f.passes || !secured
			if want {
				wait = patience(true)
			}
			if got := receives(in, f.name, wait); got != want {
				t.Errorf("%s, secured %t: arrives %t, want %t", f.name, secured, got, want)
			}
		}
	}
}

// TestFramesToAGuest: a guest receives answers of DHCP and what IPv6 needs without a rule, and nothing else.
func TestFramesToAGuest(t *testing.T) {
	h := newHost(t)
	h.bridge("br1")
	a, b := h.connect("br1", 1), h.connect("br1", 2)
	out, in := a.packetSocket(), b.packetSocket()
	h.apply(groupfilter.State{Ports: []groupfilter.Port{b.port("br1")}})
	local, _ := securitygroup.LinkLocal(a.mac)
	nodes := netip.MustParseAddr("ff02::1")
	text := []byte("-0123456789abcdef")
	for _, f := range []frame{
		{"offer", ethernet(everyone, a.mac, 0x0800, udp4(a.four, b.four, 67, 68, "offer")), true},
		{"udp", ethernet(everyone, a.mac, 0x0800, udp4(a.four, b.four, 67, 69, "udp")), false},
		{"advert", ethernet(everyone, a.mac, 0x86dd, icmp6(local, nodes, 134, []byte("advert"+string(text)))), true},
		{"echo", ethernet(everyone, a.mac, 0x86dd, icmp6(local, nodes, 128, []byte("echo"+string(text)))), false},
		{"lldp", ethernet(everyone, a.mac, 0x88cc, []byte("lldp"), text), false},
		{"arp", ethernet(everyone, a.mac, 0x0806, arp(1, a.mac, a.four, b.four, "arp")), true},
	} {
		if _, err := syscall.Write(out, f.data); err != nil {
			t.Error(f.name, err)
		}
		wait := 100 * time.Millisecond
		if f.passes {
			wait = patience(true)
		}
		if got := receives(in, f.name, wait); got != f.passes {
			t.Errorf("%s: arrives %t, want %t", f.name, got, f.passes)
		}
	}
	if out := h.run("nft", "list", "chains"); !strings.Contains(out, "version-") {
		t.Error(out)
	}
}

// writeFrame sends a frame.
func writeFrame(fd int, data []byte) (int, error) { return syscall.Write(fd, data) }

package bridges_test

import (
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/openberth/berth/agent/bridgeplan"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/internal/machines"
)

// asSender is the variable that makes the test program send frames by eth0: its value is their bytes in hexadecimal,
// separated by commas.
const asSender = "BERTH_TEST_FRAMES"

// sendFrames sends frames by eth0.
func sendFrames(list string) error {
	i, err := net.InterfaceByName("eth0")
	if err != nil {
		return err
	}
	fd, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	for _, text := range strings.Split(list, ",") {
		frame, err := hex.DecodeString(text)
		if err != nil {
			return err
		}
		if err := syscall.Sendto(fd, frame, 0, &syscall.SockaddrLinklayer{Ifindex: i.Index}); err != nil {
			return err
		}
	}
	return nil
}

// sends lets a guest send frames.
func (h *host) sends(guest string, frames ...string) {
	h.t.Helper()
	h.run("ip netns exec " + guest + " env " + asSender + "=" + strings.Join(frames, ",") + " berth")
}

// macHex returns a MAC address in hexadecimal.
func macHex(mac string) string { return strings.ReplaceAll(mac, ":", "") }

// arpAnswer returns an answer of ARP that an address has a MAC address.
func arpAnswer(to, from, mac, address, asked string) string {
	return fmt.Sprintf("%s%s0806000108000604%04x%s%x%s%x", macHex(to), macHex(from), 2, macHex(mac),
		netip.MustParseAddr(address).AsSlice(), macHex(to), netip.MustParseAddr(asked).AsSlice())
}

// packet returns a packet of IPv4 with a checksum. flags is the word with the offset of the fragment.
func packet(to, from string, source, target string, protocol byte, flags uint16, body string) string {
	data, _ := hex.DecodeString(body)
	header := fmt.Sprintf("4500%04x0007%04x40%02x0000%x%x", 20+len(data), flags, protocol,
		netip.MustParseAddr(source).AsSlice(), netip.MustParseAddr(target).AsSlice())
	raw, _ := hex.DecodeString(header)
	sum := uint32(0)
	for i := 0; i < len(raw); i += 2 {
		sum += uint32(raw[i])<<8 | uint32(raw[i+1])
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return macHex(to) + macHex(from) + "0800" + header[:20] + fmt.Sprintf("%04x", ^uint16(sum)) + header[24:] + body
}

// TestAttacksOfGuests: a guest without port security, which may forge every source, takes neither the gateway's place
// nor the host's, and sends nothing beyond its network with the address of another one, into the tunnels of the hosts,
// or in the name of a router.
func TestAttacksOfGuests(t *testing.T) {
	requirePrograms(t)
	n := machines.Start(t)
	outside := n.Machine("outside", "192.0.2.100", os.Args[0])
	h := newHost(t, n, "host1", "192.0.2.11")
	a, b := routed(netA, "10.0.1.0/24", "10.0.1.1", "10.0.1.250", "fa:16:3e:aa:00:01", 101),
		routed(netB, "10.0.2.0/24", "10.0.2.1", "10.0.2.250", "fa:16:3e:aa:00:02", 102)
	evil, victim, other := port(a, "a1a1a1a1-0001-4000-8000-1", "evil", "10.0.1.10"),
		port(a, "a2a2a2a2-0001-4000-8000-2", "victim", "10.0.1.11"),
		port(b, "b1b1b1b1-0001-4000-8000-3", "other", "10.0.2.10")
	if c := h.want(network.HostNetworks{Networks: []network.HostNetwork{a, b},
		Ports: []network.HostPort{evil, victim, other}}); c != "" {
		t.Fatalf("conditions: %s", c)
	}
	must(t, os.WriteFile(h.Path("root/lease.sh"), []byte(leaseScript), 0o755))
	for _, p := range []network.HostPort{evil, victim, other} {
		h.guest(p.Name, p)
		h.run(in(p.Name, udhcpc))
	}
	h.run(in("victim", "busybox ping -c1 -W2 192.0.2.100 && busybox ping -c1 -W2 10.0.1.10") +
		" && busybox ping -c1 -W2 10.0.1.11")
	gateway := bridgeplan.GatewayMAC(netA)
	tap := network.TapName(evil.ID)
	h.sends("evil", arpAnswer(victim.MAC, gateway, gateway, "10.0.1.1", "10.0.1.11"),
		arpAnswer(victim.MAC, a.MAC, a.MAC, "10.0.1.250", "10.0.1.11"))
	if seen := h.run(in("victim", "ip neigh show")); !strings.Contains(seen, "10.0.1.1 dev eth0 lladdr "+gateway) ||
		!strings.Contains(seen, "10.0.1.250 dev eth0 lladdr "+a.MAC) {
		t.Errorf("neighbours of the victim: %s", seen)
	}
	learnt := h.run("bridge fdb show dev " + tap)
	if strings.Contains(learnt, gateway) || strings.Contains(learnt, a.MAC) {
		t.Errorf("the bridge sends frames of the host to a guest: %s", learnt)
	}
	capture := outside.Command("timeout 6 tcpdump -l -n -i any 2>/dev/null")
	var seen strings.Builder
	capture.Stdout = &seen
	must(t, capture.Start())
	time.Sleep(time.Second)
	udp := func(port int, text string) string { return fmt.Sprintf("2328%04x%04x0000%x", port, 8+len(text), text) }
	tunnel := udp(4789, "0123456789abcdef")
	h.sends("evil", packet(gateway, evil.MAC, "10.0.1.10", "192.0.2.100", 17, 0, udp(7001, "true source")),
		packet(gateway, evil.MAC, "10.0.2.10", "192.0.2.100", 17, 0, udp(7002, "of another network")),
		packet(gateway, evil.MAC, "192.0.2.50", "192.0.2.100", 17, 0, udp(7003, "of another machine")),
		packet(gateway, evil.MAC, "192.0.2.11", "192.0.2.100", 17, 0, udp(7004, "of the host")),
		packet(gateway, evil.MAC, "127.0.0.1", "192.0.2.100", 17, 0, udp(7005, "of the loopback")),
		packet(gateway, evil.MAC, "10.0.1.10", "192.0.2.100", 17, 0, tunnel),
		packet(gateway, evil.MAC, "10.0.1.10", "192.0.2.100", 17, 0x2000, tunnel[:16]),
		packet(gateway, evil.MAC, "10.0.1.10", "192.0.2.100", 17, 1, tunnel[16:]),
		packet(gateway, evil.MAC, "10.0.1.10", "192.0.2.100", 1, 0, "0501fa3ec0000232"+strings.Repeat("45", 28)),
		packet(gateway, evil.MAC, "10.0.1.10", "10.0.2.10", 17, 0, udp(7006, "to another network")))
	capture.Wait()
	if got := seen.String(); !strings.Contains(got, "192.0.2.11.9000 > 192.0.2.100.7001") {
		t.Errorf("a true source does not arrive: %s", got)
	}
	for _, never := range []string{".7002", ".7003", ".7004", ".7005", ".4789", "VXLAN", "redirect", "frag"} {
		if strings.Contains(seen.String(), never) {
			t.Errorf("%s arrives outside: %s", never, seen.String())
		}
	}
	h.run(in("victim", "busybox ping -c1 -W2 192.0.2.100") + " && busybox ping -c1 -W2 10.0.1.11")
}

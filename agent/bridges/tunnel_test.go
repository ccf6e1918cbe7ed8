package bridges_test

import (
	"os"
	"strings"
	"testing"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/internal/machines"
)

// onHost returns the network of a host with an own address, and the address of the other host.
func onHost(own, mac, peer string) network.HostNetwork {
	n := routed(netA, "10.0.1.0/24", "10.0.1.1", own, mac, 101, peer)
	n.Names = []network.HostName{{Name: "alpha", Address: "10.0.1.10"}, {Name: "beta", Address: "10.0.1.11"}}
	return n
}

// TestRoutedNetworkOfTwoHosts follows packets between guests of two hosts through the tunnel, of each host to all
// guests, and of a guest that migrates: its gateway stays, with the same MAC address, and is that of its new host.
func TestRoutedNetworkOfTwoHosts(t *testing.T) {
	requirePrograms(t)
	n := machines.Start(t)
	n.Machine("outside", "192.0.2.100", os.Args[0])
	h1, h2 := newHost(t, n, "host1", "192.0.2.11"), newHost(t, n, "host2", "192.0.2.12")
	n1 := onHost("10.0.1.251", "fa:16:3e:aa:00:01", "192.0.2.12")
	n2 := onHost("10.0.1.252", "fa:16:3e:aa:00:02", "192.0.2.11")
	alpha, beta := port(n1, "a1a1a1a1-0001-4000-8000-1", "alpha", "10.0.1.10"),
		port(n1, "a2a2a2a2-0001-4000-8000-2", "beta", "10.0.1.11")
	for h, all := range map[*host]network.HostNetworks{
		h1: {Networks: []network.HostNetwork{n1}, Ports: []network.HostPort{alpha}},
		h2: {Networks: []network.HostNetwork{n2}, Ports: []network.HostPort{beta}}} {
		if c := h.want(all); c != "" {
			t.Fatalf("conditions of %s: %s", h.Name, c)
		}
		must(t, os.WriteFile(h.Path("root/lease.sh"), []byte(leaseScript), 0o755))
	}
	h1.guest("alpha", alpha)
	h2.guest("beta", beta)
	h1.run(in("alpha", udhcpc))
	h2.run(in("beta", udhcpc))
	both := []*host{h1, h2}
	for _, h := range both {
		for _, address := range []string{"10.0.1.10", "10.0.1.11"} {
			h.run("busybox ping -c2 -W2 " + address)
		}
	}
	h1.run(in("alpha", "busybox ping -c1 -W2 10.0.1.11"))
	h1.run(in("alpha", "busybox ping -c1 -W2 -s 1422 10.0.1.11"))
	h1.run(in("alpha", "busybox nslookup beta.cloud.test"+" 10.0.1.1"))
	mac := gatewayMAC(h1, "alpha")
	if other := gatewayMAC(h2, "beta"); mac == "" || other != mac {
		t.Errorf("MAC addresses of the gateways: %s, %s", mac, other)
	}
	if own := h1.run("ip link show " + n1.Bridge); !strings.Contains(own, "link/ether "+mac) {
		t.Errorf("the guest uses %s, and the bridge has %s", mac, own)
	}
	h1.checkTunnel(h2)
	// the migration of alpha: its interface appears on host2, and leaves host1
	if c := h2.want(network.HostNetworks{Networks: []network.HostNetwork{n2},
		Ports: []network.HostPort{alpha, beta}}); c != "" {
		t.Error(c)
	}
	state := h1.run(in("alpha", "ip neigh show 10.0.1.1"))
	h1.run("ip netns del alpha")
	h2.guest("alpha", alpha)
	h2.run(in("alpha", "ip addr add 10.0.1.10/24 dev eth0; ip route add default via 10.0.1.1; ip neigh replace 10.0.1.1 "+
		"lladdr "+mac+" dev eth0"))
	h2.run(in("alpha", "busybox ping -c1 -W1 192.0.2.100"))
	h2.run(in("alpha", "busybox ping -c1 -W1 10.0.1.11"))
	h1.want(network.HostNetworks{})
	h2.run(in("alpha", "busybox ping -c1 -W1 192.0.2.100"))
	h2.run(in("alpha", udhcpc))
	if !strings.Contains(state, mac) {
		t.Errorf("neighbours of the guest: %s", state)
	}
}

// gatewayMAC returns the MAC address that a guest uses for its gateway.
func gatewayMAC(h *host, guest string) string {
	h.t.Helper()
	h.run(in(guest, "busybox ping -c1 -W2 192.0.2.100"))
	fields := strings.Fields(h.run(in(guest, "ip neigh show 10.0.1.1")))
	for i, f := range fields {
		if f == "lladdr" && i+1 < len(fields) {
			return fields[i+1]
		}
	}
	return ""
}

// checkTunnel counts what must not pass the tunnel: frames of the gateway, ARP for it, and DHCP.
func (h *host) checkTunnel(other *host) {
	h.t.Helper()
	capture := other.Command("timeout 8 tcpdump -l -n -e -i vxlan-101 2>/dev/null")
	var seen strings.Builder
	capture.Stdout = &seen
	must(h.t, capture.Start())
	h.run("sleep 1; " + in("alpha", "ip neigh flush all; busybox ping -c1 -W2 192.0.2.100") +
		"; " + in("alpha", "busybox ping -c1 -W2 10.0.1.11") + "; " + in("alpha", udhcpc) + "; busybox ping -c1 10.0.1.11")
	capture.Wait()
	for _, line := range strings.Split(seen.String(), "\n") {
		for _, never := range []string{"10.0.1.1 ", "10.0.1.1,", "02:0a:00:00:00:11", ".67:", ".68:"} {
			if strings.Contains(line, never) {
				h.t.Errorf("passes the tunnel: %s", line)
			}
		}
	}
	if !strings.Contains(seen.String(), "10.0.1.11") {
		h.t.Errorf("the tunnel was not watched: %s", seen.String())
	}
}

package bridges_test

import (
	"os"
	"testing"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/internal/machines"
)

// secured returns a port with security groups.
func secured(p network.HostPort, groups ...string) network.HostPort {
	p.PortSecurity, p.Groups = true, groups
	return p
}

// TestSecurityGroupsOfRoutedNetwork: guests with security groups get leases, names and metadata, reach what is outside,
// and are reached by what rules permit, on one host and through the tunnel between two hosts. A guest without a rule of
// egress gets its lease and reaches nothing.
func TestSecurityGroupsOfRoutedNetwork(t *testing.T) {
	requirePrograms(t)
	n := machines.Start(t)
	n.Machine("outside", "192.0.2.100", os.Args[0])
	h, h2 := newHost(t, n, "host1", "192.0.2.11"), newHost(t, n, "host2", "192.0.2.12")
	a := routed(netA, "10.0.1.0/24", "10.0.1.1", "10.0.1.250", "fa:16:3e:aa:00:01", 101, "192.0.2.12")
	a2 := routed(netA, "10.0.1.0/24", "10.0.1.1", "10.0.1.251", "fa:16:3e:aa:00:02", 101, "192.0.2.11")
	alpha := secured(port(a, "a1a1a1a1-0001-4000-8000-1", "alpha", "10.0.1.10"), "client")
	beta := secured(port(a, "a2a2a2a2-0001-4000-8000-2", "beta", "10.0.1.11"), "server")
	gamma := secured(port(a, "a3a3a3a3-0001-4000-8000-3", "gamma", "10.0.1.12"))
	delta := secured(port(a2, "a4a4a4a4-0001-4000-8000-4", "delta", "10.0.1.13"), "server")
	names := []network.HostName{{Name: "beta", Address: "10.0.1.11"}}
	a.Names, a2.Names = names, names
	port80 := 80
	groups := []network.HostSecurityGroup{
		{ID: "client", Rules: []network.HostSecurityGroupRule{{ID: "out", Direction: "egress", EtherType: "IPv4"}},
			Members: []string{"10.0.1.10"}},
		{ID: "server", Rules: []network.HostSecurityGroupRule{{ID: "out", Direction: "egress", EtherType: "IPv4"},
			{ID: "in", Direction: "ingress", EtherType: "IPv4", Protocol: "tcp", Min: &port80, Max: &port80,
				RemoteGroup: "client"}}}}
	for _, one := range []struct {
		h     *host
		n     network.HostNetwork
		ports []network.HostPort
	}{{h, a, []network.HostPort{alpha, beta, gamma}}, {h2, a2, []network.HostPort{delta}}} {
		if c := one.h.want(network.HostNetworks{Networks: []network.HostNetwork{one.n}, Ports: one.ports,
			Groups: groups}); c != "" {
			t.Fatalf("conditions: %s", c)
		}
		must(t, os.WriteFile(one.h.Path("root/lease.sh"), []byte(leaseScript), 0o755))
		for _, p := range one.ports {
			one.h.guest(p.Name, p)
			one.h.run(in(p.Name, udhcpc))
			one.h.run(in(p.Name, "busybox nc -ll -p 80 -e cat >/dev/null 2>&1 & busybox nc -ll -p 81 -e cat >/dev/null 2>&1 &"))
		}
	}
	reach := func(address, port string) string {
		return "echo x | busybox nc -w2 " + address + " " + port + " | grep x"
	}
	for _, c := range []struct {
		what, guest, script string
		works               bool
	}{
		{"metadata", "alpha", "curl -sS -m5 http://169.254.169.254/latest/meta-data/instance-id", true},
		{"a name", "alpha", "busybox nslookup beta.cloud.test 10.0.1.1", true},
		{"the outside", "alpha", "busybox ping -c1 -W2 192.0.2.100", true},
		{"the gateway", "beta", "busybox ping -c1 -W2 10.0.1.1", true},
		{"a permitted port", "alpha", reach("10.0.1.11", "80"), true},
		{"a permitted port of another host", "alpha", reach("10.0.1.13", "80"), true},
		{"another port", "alpha", reach("10.0.1.11", "81"), false},
		{"another port of another host", "alpha", reach("10.0.1.13", "81"), false},
		{"a port that another group may reach", "beta", reach("10.0.1.13", "80"), false},
		{"a neighbour without a rule", "beta", "busybox ping -c1 -W1 10.0.1.10", false},
		{"the outside without a rule", "gamma", "busybox ping -c1 -W1 192.0.2.100", false},
		{"metadata without a rule", "gamma", "curl -sS -m2 http://169.254.169.254/latest/meta-data/instance-id", false},
	} {
		if out, err := h.Command(in(c.guest, c.script)).CombinedOutput(); (err == nil) != c.works {
			t.Errorf("%s of %s: %v %s", c.what, c.guest, err, out)
		}
	}
	if !h.fails("busybox ping -c1 -W1 10.0.1.10") {
		t.Error("the host reaches a guest without a rule")
	}
}

package bridges_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/agent/bridgelink"
	"github.com/openberth/berth/agent/bridgeplan"
	"github.com/openberth/berth/agent/bridges"
	"github.com/openberth/berth/agent/configdrive"
	"github.com/openberth/berth/agent/dnsmasq"
	"github.com/openberth/berth/agent/metadata"
	"github.com/openberth/berth/agent/nftables"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/machines"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/securitygroup"
)

// asHost is the variable that makes the test program the agent of a machine: its value is the directory with its files.
const asHost = "BERTH_TEST_HOST"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asHost); dir != "" {
		serveHost(dir)
		return
	}
	if frames := os.Getenv(asSender); frames != "" {
		if err := sendFrames(frames); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// fileSource reads the networks of a host from a file; the network service that does not answer has none.
type fileSource string

func (f fileSource) HostNetworks(context.Context, string) (all network.HostNetworks, err error) {
	text, err := os.ReadFile(string(f))
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		err = fault.New(fault.Unavailable, "%w", err)
	}
	return all, err
}

// serveHost makes the networks of a machine until it is killed, and writes its conditions to a file after each pass.
func serveHost(dir string) {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	os.WriteFile(filepath.Join(dir, "pid"), []byte(strconv.Itoa(os.Getpid())), 0o644)
	var b *bridges.Bridges
	b = bridges.New(bridges.Options{Name: "host", File: filepath.Join(dir, "state.json"), Log: log,
		Host: bridgeplan.Host{TunnelIP: os.Getenv("TUNNEL_IP"), TunnelPort: 4789,
			Interfaces: map[string]string{"lan": "phys0", "wan": "phys1"}},
		Source: fileSource(filepath.Join(dir, "wanted.json")), Kernel: bridgelink.Kernel{},
		DHCP: dnsmasq.Servers{Dir: "/run/berth/networks"}, Filter: &nftables.Filter{Log: log},
		Metadata: metadata.New(func(_ context.Context, id string, at netip.Addr) (configdrive.Server, error) {
			all, err := b.State()
			for _, p := range all.Ports {
				local, _ := securitygroup.LinkLocal(p.MAC)
				if p.Network == id && (p.FixedIPs[0].Address == at.String() || local == at) {
					return configdrive.Server{ID: p.Device, Name: p.Name, UserData: []byte("data of " + p.Name)}, err
				}
			}
			return configdrive.Server{}, fault.New(fault.NotFound, "no guest")
		}, log)})
	for {
		made := stamp(filepath.Join(dir, "wanted.json"))
		conditions := b.Sync(context.Background())
		text := made + "\n" + strings.Join(condition.Texts(conditions), "\n")
		os.WriteFile(filepath.Join(dir, "done.new"), []byte(text), 0o644)
		os.Rename(filepath.Join(dir, "done.new"), filepath.Join(dir, "done"))
		time.Sleep(200 * time.Millisecond)
	}
}

// stamp identifies the content of a file.
func stamp(file string) string {
	text, _ := os.ReadFile(file)
	return fmt.Sprintf("%x", len(text)) + fmt.Sprintf("-%x", sum(text))
}

func sum(text []byte) (n uint64) {
	for _, b := range text {
		n = n*1099511628211 + uint64(b)
	}
	return n
}

// host is a machine with an agent.
type host struct {
	*machines.Machine
	t      *testing.T
	dir    string
	agent  *exec.Cmd
	tunnel string
}

func newHost(t *testing.T, n *machines.Network, name, address string) *host {
	t.Helper()
	h := &host{Machine: n.Machine(name, address, os.Args[0]), t: t, dir: t.TempDir(), tunnel: address}
	h.run("ip route add default via 192.0.2.100")
	h.startAgent()
	t.Cleanup(func() {
		h.killAgent()
	})
	return h
}

func (h *host) startAgent() {
	h.t.Helper()
	h.agent = h.Command("exec berth", asHost+"="+h.dir, "TUNNEL_IP="+h.tunnel)
	if testing.Verbose() {
		h.agent.Stderr = os.Stderr
	}
	if err := h.agent.Start(); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) killAgent() {
	if h.agent != nil {
		h.Command("kill -9 $(cat " + h.dir + "/pid)").Run()
		h.agent.Wait()
	}
	h.agent = nil
}

// want gives the agent the networks and ports of its host, and waits until it has made them. It returns the conditions.
func (h *host) want(all network.HostNetworks) string {
	h.t.Helper()
	text, _ := json.Marshal(all)
	file := filepath.Join(h.dir, "wanted.json")
	os.WriteFile(file+".new", text, 0o644)
	os.Rename(file+".new", file)
	for range 200 {
		done, _ := os.ReadFile(filepath.Join(h.dir, "done"))
		if at, conditions, _ := strings.Cut(string(done), "\n"); at == stamp(file) {
			return conditions
		}
		time.Sleep(50 * time.Millisecond)
	}
	h.t.Fatal("the agent does not make the networks")
	return ""
}

// run runs a script that must succeed, and returns its output.
func (h *host) run(script string) string {
	h.t.Helper()
	out, err := h.Command(script).CombinedOutput()
	if err != nil {
		h.t.Fatalf("%s: %s: %v\n%s", h.Name, script, err, out)
	}
	return string(out)
}

// fails reports whether a script fails.
func (h *host) fails(script string) bool {
	h.t.Helper()
	return h.Command(script).Run() != nil
}

// guest plugs a guest in as a namespace whose eth0 is the interface of a port.
func (h *host) guest(name string, p network.HostPort) {
	h.t.Helper()
	h.run(fmt.Sprintf(`ip netns add %[1]s && ip link add %[2]s type veth peer name eth0 address %[3]s netns %[1]s
ip link set %[2]s master %[4]s up && ip -n %[1]s link set lo up && ip -n %[1]s link set eth0 up`, name,
		network.TapName(p.ID), p.MAC, p.Bridge))
}

// in runs a script in a guest.
func in(guest, script string) string { return "ip netns exec " + guest + " sh -c '" + script + "'" }

// udhcpc gets a lease and sets what it says, as a guest does.
const udhcpc = `busybox udhcpc -f -n -q -t 5 -T 1 -i eth0 -s /root/lease.sh -O mtu -O staticroutes`

// leaseScript is the script of udhcpc.
const leaseScript = `#!/bin/sh
[ "$1" = bound ] || exit 0
ip addr replace $ip/$mask dev eth0
ip link set eth0 mtu ${mtu:-1500}
[ -z "$router" ] || ip route replace default via $router
set -- $staticroutes
while [ $# -ge 2 ]; do ip route replace $1 via $2; shift 2; done
echo "lease $ip/$mask router=$router dns=$dns mtu=$mtu domain=$domain routes=$staticroutes"
`

const (
	netA = "0a000000-1111-4000-8000-000000000001"
	netB = "0b000000-1111-4000-8000-000000000002"
)

// routed returns a network of type vxlan with an own port of the host.
func routed(id, cidr, gateway, own, mac string, vni int, peers ...string) network.HostNetwork {
	return network.HostNetwork{ID: id, Bridge: "brq" + id[:11], NetworkType: "vxlan", SegmentationID: vni, MTU: 1450,
		DNSDomain: "cloud.test.", Port: "own-" + id, MAC: mac, Peers: peers, Subnets: []network.HostSubnet{{ID: "sub-" + id,
			IPVersion: 4, CIDR: cidr, Gateway: gateway, DHCP: true, Address: own}}}
}

// port returns a port of a network.
func port(n network.HostNetwork, id, name, address string) network.HostPort {
	at := netip.MustParseAddr(address).As4()
	p := network.HostPort{ID: id, Device: "server-" + name, VIF: "bridge",
		MAC: fmt.Sprintf("fa:16:3e:00:%02x:%02x", at[2], at[3])}
	p.PortIdentity = network.PortIdentity{Network: n.ID, Bridge: n.Bridge, Name: name,
		FixedIPs: []network.FixedIP{{Subnet: n.Subnets[0].ID, Address: address}}}
	return p
}

// requirePrograms skips the test without its programs.
func requirePrograms(t *testing.T) {
	t.Helper()
	for _, program := range []string{"nft", "dnsmasq", "busybox", "curl"} {
		testenv.Need(t, program, "Linux bridges")
	}
}

// TestRoutedNetworkOfOneHost follows packets of guests on one host: DHCP, DNS, NAT, metadata, and what must not pass.
func TestRoutedNetworkOfOneHost(t *testing.T) {
	requirePrograms(t)
	n := machines.Start(t)
	outside := n.Machine("outside", "192.0.2.100", os.Args[0])
	h := newHost(t, n, "host1", "192.0.2.11")
	a, b := routed(netA, "10.0.1.0/24", "10.0.1.1", "10.0.1.250", "fa:16:3e:aa:00:01", 101),
		routed(netB, "10.0.2.0/24", "10.0.2.1", "10.0.2.250", "fa:16:3e:aa:00:02", 102)
	pa, pa2, pb := port(a, "a1a1a1a1-0001-4000-8000-1", "alpha", "10.0.1.10"),
		port(a, "a2a2a2a2-0001-4000-8000-2", "beta", "10.0.1.11"), port(b, "b1b1b1b1-0001-4000-8000-3", "gamma", "10.0.2.10")
	a.Names = []network.HostName{{Name: "alpha", Address: "10.0.1.10"}, {Name: "beta", Address: "10.0.1.11"}}
	if c := h.want(network.HostNetworks{Networks: []network.HostNetwork{a, b},
		Ports: []network.HostPort{pa, pa2, pb}}); c != "" {
		t.Fatalf("conditions: %s", c)
	}
	must(t, os.WriteFile(h.Path("root/lease.sh"), []byte(leaseScript), 0o755))
	h.guest("alpha", pa)
	h.guest("beta", pa2)
	h.guest("gamma", pb)
	for guest, want := range map[string]string{
		"alpha": "lease 10.0.1.10/24 router=10.0.1.1 dns=10.0.1.1 mtu=1450 domain=cloud.test",
		"beta":  "lease 10.0.1.11/24", "gamma": "lease 10.0.2.10/24"} {
		if out := h.run(in(guest, udhcpc)); !strings.Contains(out, want) {
			t.Errorf("lease of %s: %s", guest, out)
		}
	}
	out, err := outside.Command("ip route").CombinedOutput()
	if err != nil || strings.Contains(string(out), "10.0.") {
		t.Fatalf("the outside has a route to guests: %s", out)
	}
	for what, script := range map[string]string{
		"a guest to its neighbour":  in("alpha", "busybox ping -c1 -W2 10.0.1.11"),
		"a guest to its gateway":    in("alpha", "busybox ping -c1 -W2 10.0.1.1"),
		"a guest to the outside":    in("alpha", "busybox ping -c1 -W2 192.0.2.100"),
		"the host to a guest":       "busybox ping -c1 -W2 10.0.1.10",
		"the host to another guest": "busybox ping -c1 -W2 10.0.2.10",
		"the host to a service of a guest": in("beta", "busybox nc -l -p 22 -e echo hello >/dev/null 2>&1 &") +
			"; sleep 0.3; busybox nc -w2 10.0.1.11 22 </dev/null | grep hello",
		"the host to a closed port": "busybox nc -w3 10.0.1.11 23 </dev/null 2>&1 | grep refused",
		"a name":                    in("alpha", "busybox nslookup beta.cloud.test 10.0.1.1"),
	} {
		if out, err := h.Command(script).CombinedOutput(); err != nil {
			t.Errorf("%s: %v %s", what, err, out)
		}
	}
	out2 := h.run(in("alpha", "curl -sS -m5 http://169.254.169.254/latest/meta-data/instance-id"))
	if out2 != "server-alpha" {
		t.Errorf("metadata of alpha: %q", out2)
	}
	if out := h.run(in("beta", "curl -sS -m5 http://169.254.169.254/openstack/latest/user_data")); out != "data of beta" {
		t.Errorf("user data of beta: %q", out)
	}
	h.run("busybox nc -lk -p 8080 -e echo & busybox nc -lk -p 80 -e echo >/dev/null 2>&1 &")
	for what, script := range map[string]string{
		"another network":               in("alpha", "busybox ping -c1 -W1 10.0.2.10"),
		"the other network's gateway":   in("alpha", "busybox ping -c1 -W1 10.0.2.1"),
		"a service of the host":         in("alpha", "busybox nc -w1 10.0.1.1 8080 </dev/null"),
		"the host by its other address": in("alpha", "busybox ping -c1 -W1 192.0.2.11"),
		"metadata of the host":          "curl -sS -m2 http://169.254.169.254/",
		"metadata port from outside":    "curl -sS -m2 http://192.0.2.11:9697/",
	} {
		if !h.fails(script) {
			t.Errorf("%s is reached", what)
		}
	}
	outside.Command("ip route add 10.0.1.0/24 via 192.0.2.11").Run()
	if outside.Command("busybox ping -c1 -W1 10.0.1.10").Run() == nil {
		t.Error("a guest is reached from outside")
	}
	h.checkRestart(a, b, pa, pb)
}

// checkRestart kills the agent and starts it again: nothing changes. Then it takes a network away.
func (h *host) checkRestart(a, b network.HostNetwork, pa, pb network.HostPort) {
	t := h.t
	before := h.run("pgrep -x dnsmasq | sort; nft list table inet berth_networks; ip -o link | cut -d: -f1,2")
	h.killAgent()
	h.run(in("alpha", "busybox ping -c1 -W2 192.0.2.100"))
	must(t, os.Remove(filepath.Join(h.dir, "done")))
	h.startAgent()
	h.want(network.HostNetworks{Networks: []network.HostNetwork{a, b}, Ports: []network.HostPort{pa, pb}})
	if after := h.run("pgrep -x dnsmasq | sort; nft list table inet berth_networks; ip -o link | cut -d: -f1,2"); after !=
		before {
		t.Errorf("after a restart of the agent:\n%s\nbefore:\n%s", after, before)
	}
	h.run("kill -9 $(cat /run/berth/networks/" + netA + "/pid); nft delete table inet berth_networks")
	h.run("ip link add foreign type bridge")
	time.Sleep(time.Second)
	h.run("test -d /proc/$(cat /run/berth/networks/" + netA + "/pid) && nft list table inet berth_networks")
	c := h.want(network.HostNetworks{Networks: []network.HostNetwork{a}, Ports: []network.HostPort{pa}})
	if !strings.Contains(c, "stays as long as tap"+pb.ID[:11]+" is in its bridge") {
		t.Errorf("a network with a guest: %q", c)
	}
	h.run(in("gamma", "busybox ping -c1 -W2 192.0.2.100"))
	h.run("ip netns del gamma; ip netns del alpha; ip netns del beta")
	h.want(network.HostNetworks{})
	time.Sleep(time.Second)
	left := h.run("ip -o link | cut -d: -f2; nft list tables; ls /run/berth/networks; pgrep -x dnsmasq || true")
	for _, one := range []string{"brq", "bro", "brp", "vxlan-", "berth_networks", netA} {
		if strings.Contains(left, one) {
			t.Errorf("%s is left: %s", one, left)
		}
	}
	if !strings.Contains(left, "foreign") {
		t.Errorf("the bridge of the operator is gone: %s", left)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

package nftables

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netns"

	"github.com/openberth/berth/agent/groupfilter"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/securitygroup"
)

// space is a network namespace.
type space struct {
	t  testing.TB
	ns netns.NsHandle
}

// newSpace creates a namespace that ends with the test.
func newSpace(t testing.TB) *space {
	t.Helper()
	made := make(chan netns.NsHandle)
	var err error
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		var ns netns.NsHandle
		ns, err = netns.New()
		made <- ns
	}()
	s := &space{t, <-made}
	if err != nil {
		t.Fatalf("a network namespace is not created: %v; run the test as root", err)
	}
	t.Cleanup(func() { s.ns.Close() })
	s.run("ip", "link", "set", "lo", "up")
	return s
}

// do calls a function in the namespace. Sockets that it opens stay there.
func (s *space) do(f func()) {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := netns.Set(s.ns)
		if err == nil {
			f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		s.t.Error(err)
	}
}

// try runs a program in the namespace.
func (s *space) try(name string, args ...string) (out string, err error) {
	s.do(func() {
		var data []byte
		data, err = exec.Command(name, args...).CombinedOutput()
		out = string(data)
	})
	return out, err
}

func (s *space) run(name string, args ...string) string {
	s.t.Helper()
	out, err := s.try(name, args...)
	if err != nil {
		s.t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return out
}

// guest is a namespace that is connected to a bridge of the host as a guest would be.
type guest struct {
	*space
	tap, mac string
	four     netip.Addr
	six      netip.Addr
}

// host is a namespace with bridges.
type host struct {
	*space
	filter *Filter
	guests int
}

func newHost(t testing.TB) *host {
	t.Helper()
	testenv.Need(t, "root", "nft", "ip")
	h := &host{space: newSpace(t), filter: &Filter{Log: slog.New(slog.DiscardHandler)}}
	for _, kind := range []string{"iptables", "ip6tables", "arptables"} { // the option of each bridge decides
		h.do(func() {
			if err := os.WriteFile("/proc/sys/net/bridge/bridge-nf-call-"+kind, []byte("0"), 0o600); err != nil {
				t.Errorf("%v; load the module br_netfilter", err)
			}
		})
	}
	return h
}

// bridge adds a bridge.
func (h *host) bridge(name string) {
	h.t.Helper()
	h.run("ip", "link", "add", name, "type", "bridge", "mcast_snooping", "0", "forward_delay", "0")
	h.run("ip", "link", "set", name, "up")
}

// connect adds a guest to a bridge: number n has the addresses 10.0.0.n and 2001:db8::n.
func (h *host) connect(bridge string, n int) *guest {
	h.t.Helper()
	h.guests++
	g := &guest{space: newSpace(h.t), tap: fmt.Sprintf("tap%08d-%02d", h.guests, n),
		mac: fmt.Sprintf("fa:16:3e:00:%02x:%02x", h.guests, n), four: netip.AddrFrom4([4]byte{10, 0, 0, byte(n)})}
	g.six = netip.MustParseAddr(fmt.Sprintf("2001:db8::%x", n))
	h.run("ip", "link", "add", g.tap, "type", "veth", "peer", "name", fmt.Sprintf("peer%d", h.guests))
	h.run("ip", "link", "set", g.tap, "master", bridge, "up")
	g.takes(h, fmt.Sprintf("peer%d", h.guests))
	return g
}

// takes moves an interface of the host into the guest.
func (g *guest) takes(h *host, name string) {
	g.t.Helper()
	pid := make(chan int)
	end := make(chan struct{})
	go g.do(func() { pid <- syscall.Gettid(); <-end })
	h.run("ip", "link", "set", name, "netns", fmt.Sprint(<-pid))
	close(end)
	g.run("ip", "link", "set", name, "name", "eth0", "address", g.mac)
	g.run("sysctl", "-qw", "net.ipv6.conf.eth0.accept_dad=0", "net.ipv6.conf.eth0.router_solicitations=0")
	g.run("ip", "link", "set", "eth0", "up")
	g.run("ip", "addr", "add", g.four.String()+"/24", "dev", "eth0")
	g.run("ip", "addr", "add", g.six.String()+"/64", "dev", "eth0", "nodad")
}

// port returns the port of a guest in a bridge.
func (g *guest) port(bridge string, groups ...string) groupfilter.Port {
	return groupfilter.Port{Tap: g.tap, Bridge: bridge, Port: securitygroup.Port{ID: g.tap, MAC: g.mac, Secured: true,
		Addresses: []netip.Addr{g.four, g.six}, Groups: groups}}
}

// apply applies a state.
func (h *host) apply(s groupfilter.State) {
	h.t.Helper()
	var err error
	h.do(func() { err = h.filter.apply(context.Background(), s) })
	if err != nil {
		h.t.Fatal(err)
	}
}

// patience returns how long a probe waits: for an answer that is wanted as long as TCP needs to send again on a busy
// machine, and for one that must not come a time in which the machine is rarely late. It is not testenv.Patience,
// because a datagram that was lost never comes: the probe is sent again.
func patience(wanted bool) time.Duration {
	if wanted {
		return 20 * time.Second
	}
	return 350 * time.Millisecond
}

// serve answers TCP and UDP on ports, and returns when it listens.
func (g *guest) serve(ports ...int) {
	g.t.Helper()
	for _, port := range ports {
		g.do(func() {
			at := fmt.Sprintf("[::]:%d", port)
			l, err := net.Listen("tcp", at)
			if err != nil {
				g.t.Error(err)
				return
			}
			u, err := net.ListenPacket("udp", at)
			if err != nil {
				g.t.Error(err)
				return
			}
			g.t.Cleanup(func() { l.Close(); u.Close() })
			go echoStreams(l)
			go echoPackets(u)
		})
	}
}

func echoStreams(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			b := make([]byte, 64)
			for {
				n, err := c.Read(b)
				if err != nil {
					return
				}
				if _, err := c.Write(b[:n]); err != nil {
					return
				}
			}
		}()
	}
}

func echoPackets(u net.PacketConn) {
	b := make([]byte, 64)
	for {
		n, from, err := u.ReadFrom(b)
		if err != nil {
			return
		}
		_, _ = u.WriteTo(b[:n], from)
	}
}

// exchange sends some bytes and reports whether they come back, which is wanted or not.
func exchange(c net.Conn, wanted bool) bool {
	b := make([]byte, 4)
	_ = c.SetDeadline(time.Now().Add(patience(wanted)))
	if _, err := c.Write([]byte("ping")); err != nil {
		return false
	}
	_, err := c.Read(b)
	return err == nil
}

// reaches reports whether a connection by tcp or udp to an address and a port is answered, which is wanted or not.
func (g *guest) reaches(network string, to netip.Addr, port int, wanted bool) (ok bool) {
	g.do(func() {
		c, err := net.DialTimeout(network, netip.AddrPortFrom(to, uint16(port)).String(), patience(wanted))
		if err != nil {
			return
		}
		defer c.Close()
		ok = exchange(c, wanted)
	})
	return ok
}

// open opens a connection by TCP.
func (g *guest) open(to netip.Addr, port int) (c net.Conn, err error) {
	g.do(func() {
		c, err = net.DialTimeout("tcp", netip.AddrPortFrom(to, uint16(port)).String(), patience(true))
	})
	if err == nil {
		g.t.Cleanup(func() { c.Close() })
	}
	return c, err
}

// pings reports whether an echo request is answered, which is wanted or not.
func (g *guest) pings(to netip.Addr, wanted bool) (ok bool) {
	g.do(func() {
		network, request, answer := "ip4:icmp", byte(8), byte(0)
		if to.Is6() {
			network, request, answer = "ip6:ipv6-icmp", 128, 129
		}
		c, err := net.ListenPacket(network, "")
		if err != nil {
			g.t.Error(err)
			return
		}
		defer c.Close()
		id := byte(time.Now().UnixNano())
		message := []byte{request, 0, 0, 0, 7, id, 0, 1}
		if to.Is4() { // the kernel sets the checksum of ICMPv6
			sum := ^(uint32(request)<<8 + 7<<8 + uint32(id) + 1)
			message[2], message[3] = byte(sum>>8), byte(sum)
		}
		deadline := time.Now().Add(patience(wanted))
		_ = c.SetDeadline(deadline)
		if _, err := c.WriteTo(message, &net.IPAddr{IP: to.AsSlice()}); err != nil {
			return
		}
		b := make([]byte, 256)
		for {
			n, from, err := c.ReadFrom(b)
			if err != nil {
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					g.t.Error(err)
				}
				return
			}
			if n >= 6 && b[0] == answer && b[5] == id && from.String() == to.String() {
				ok = true
				return
			}
		}
	})
	return ok
}

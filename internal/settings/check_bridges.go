package settings

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
)

// checkBridges adds what this machine lacks to connect networks by Linux bridges. A captured machine is not checked.
func (c *CheckReport) checkBridges(s Settings) {
	b := s.LinuxBridges
	if !b.Configured() || s.Sysfs != "/sys" {
		return
	}
	for _, of := range [][2]string{{"nft", "nftables"}, {"dnsmasq", "dnsmasq-base"}} {
		if _, err := exec.LookPath(of[0]); err != nil {
			c.add(LevelError, "the program "+of[0]+", which networks on Linux bridges need, is not installed; install the "+
				"package "+of[1])
		}
	}
	if b.TunnelIP != "" && !hasAddress(b.TunnelIP) {
		c.add(LevelError, "[vxlan] local_ip: this machine does not have the address "+b.TunnelIP+"; write one of its own")
	}
	for _, m := range slices.Concat(b.Bridges, b.Interfaces) {
		if _, err := net.InterfaceByName(m.Device); err != nil {
			c.add(LevelError, "[linux_bridge]: there is no interface "+m.Device+" on this machine for the physical network "+
				m.Physnet+"; correct the name, or create it")
		}
	}
	for _, port := range []string{"67", "9697"} {
		if err := listens(port); errors.Is(err, syscall.EADDRINUSE) {
			c.add(LevelError, "another program uses the port "+port+" of all addresses, so guests get no "+
				map[string]string{"67": "addresses", "9697": "metadata"}[port]+"; let it listen on its own interfaces only")
		}
	}
	forwards, err := os.ReadFile("/proc/sys/net/ipv4/ip_forward")
	if err == nil && strings.TrimSpace(string(forwards)) != "1" && b.TunnelIP != "" {
		c.add(LevelWarning, "this machine does not forward packets; the agent sets net.ipv4.ip_forward to 1 with the first "+
			"network that it routes")
	}
}

// hasAddress reports whether an interface of this machine has an address.
func hasAddress(address string) bool {
	list, err := net.InterfaceAddrs()
	for _, a := range list {
		if n, is := a.(*net.IPNet); is && n.IP.String() == address {
			return true
		}
	}
	return err != nil
}

// listens tries to use a port on the loopback interface alone, as a server of another interface would: only a program
// that uses the port of all interfaces prevents it.
func listens(port string) error {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) {
			failed = syscall.SetsockoptString(int(fd), syscall.SOL_SOCKET, syscall.SO_BINDTODEVICE, "lo")
		})
		return errors.Join(err, failed)
	}}
	if port == "67" {
		l, err := config.ListenPacket(context.Background(), "udp4", "0.0.0.0:"+port)
		if err != nil {
			return err
		}
		return l.Close()
	}
	l, err := config.Listen(context.Background(), "tcp4", "0.0.0.0:"+port)
	if err != nil {
		return err
	}
	return l.Close()
}

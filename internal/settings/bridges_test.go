package settings

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestBridgeOptions reads the options of Linux bridges, and refuses wrong values with their place.
func TestBridgeOptions(t *testing.T) {
	read := func(text string) (Settings, error) {
		file := filepath.Join(t.TempDir(), "agent.conf")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return Read(slog.New(slog.DiscardHandler), file)
	}
	s, err := read("[vxlan]\nlocal_ip = 192.0.2.1\n[linux_bridge]\nbridge_mappings = lan:br0\n")
	if err != nil || s.LinuxBridges.TunnelIP != "192.0.2.1" || s.LinuxBridges.TunnelPort != 4789 ||
		s.LinuxBridges.Bridges[0].Device != "br0" || !s.LinuxBridges.Configured() {
		t.Errorf("%+v %v", s.LinuxBridges, err)
	}
	if s, err = read("[vxlan]\nenable_vxlan = false\nlocal_ip = 192.0.2.1\n"); err != nil || s.LinuxBridges.Configured() {
		t.Errorf("without tunnels: %+v %v", s.LinuxBridges, err)
	}
	for text, want := range map[string]string{
		"[vxlan]\nlocal_ip = fe80::1\n":                       "agent.conf:2: [vxlan] local_ip = fe80::1",
		"[vxlan]\nlocal_ip = 0.0.0.0\n":                       "is not an address of IPv4",
		"[linux_bridge]\nbridge_mappings = lan:br0,lan:br1\n": "lan is mapped twice",
		"[linux_bridge]\nbridge_mappings = lan:br0\nphysical_interface_mappings = lan:eth1\n": "both have the physical " +
			"network lan",
		"[linux_bridge]\nphysical_interface_mappings = eth1\n": "physnet:device",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestUsedPortIsFound finds a program that uses a port of all interfaces, and none that uses it of another interface.
func TestUsedPortIsFound(t *testing.T) {
	l, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	if err := listens(port); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a used port: %v", err)
	}
	l.Close()
	if err := listens(port); err != nil {
		t.Errorf("a free port: %v", err)
	}
}

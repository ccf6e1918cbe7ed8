package settings

import (
	"cmp"
	"context"
	"net"
	"os"
	"strings"
	"time"

	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/fault"
)

// moveCheckTime is how long the libvirt of this host may take to answer.
const moveCheckTime = 5 * time.Second

// defaultMoves is the address of the libvirt of other hosts without options for moves.
const defaultMoves = "qemu+tcp://%s/system"

// qemuSocket exists where libvirt has separate daemons, of which virtproxyd serves other hosts.
const qemuSocket = "/run/libvirt/virtqemud-sock"

// checkMoves adds what prevents moves of servers between this host and others, with the commands that repair it. It
// connects to the libvirt of this host as other hosts do. A host without options for moves may be alone, so that
// nothing is wrong there.
func (c *CheckReport) checkMoves(ctx context.Context, s *Settings) {
	m := s.Libvirt.Migration
	if !strings.HasPrefix(s.HostSettings.Driver, "libvirt") || m.URI == "" {
		return
	}
	at := cmp.Or(m.Address, s.Host)
	if ip := net.ParseIP(at); ip != nil && ip.To4() == nil {
		at = "[" + at + "]"
	}
	uri := strings.ReplaceAll(m.URI, "%s", at)
	ctx, cancel := context.WithTimeout(ctx, moveCheckTime)
	defer cancel()
	remote, err := rpc.DialURI(ctx, uri, moveCheckTime)
	if err == nil {
		remote.Close()
		return
	}
	level := LevelWarning
	if m.URI == defaultMoves && m.Address == "" {
		level = LevelInfo
	}
	daemon := "libvirtd"
	if _, err := os.Stat(qemuSocket); err == nil {
		daemon = "virtproxyd"
	}
	c.add(level, "with several hosts: no server moves from or to this one: "+fault.TextOf(err)+"; "+
		"set [libvirt] live_migration_scheme = tls, make the certificates that the guide describes, and run `"+
		strings.ReplaceAll("systemctl stop DAEMON && systemctl enable --now DAEMON-tls.socket && systemctl start DAEMON",
			"DAEMON", daemon)+"`; `berth init` does all of it on hosts that it joins")
}

package settings

import (
	"cmp"
	"context"
	"net"
	"strings"
	"time"

	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/fault"
)

// moveCheckTime is how long the libvirt of this host may take to answer.
const moveCheckTime = 5 * time.Second

// defaultMoves is the address of the libvirt of other hosts without options for moves.
const defaultMoves = "qemu+tcp://%s/system"

// moveWarnings returns what prevents moves of servers between this host and others, with the commands that repair it.
// It connects to the libvirt of this host as other hosts do. A host without options for moves is alone, or its operator
// has not come to moves yet: nothing is wrong there.
func (s *Settings) moveWarnings(ctx context.Context) []string {
	m := s.Libvirt.Migration
	if !strings.HasPrefix(s.HostSettings.Driver, "libvirt") || m.URI == "" || m.URI == defaultMoves && m.Address == "" {
		return nil
	}
	at := cmp.Or(m.Address, s.Host)
	if ip := net.ParseIP(at); ip != nil && ip.To4() == nil {
		at = "[" + at + "]"
	}
	uri := strings.ReplaceAll(m.URI, "%s", at)
	ctx, cancel := context.WithTimeout(ctx, moveCheckTime)
	defer cancel()
	c, err := rpc.DialURI(ctx, uri, moveCheckTime)
	if err == nil {
		c.Close()
		return nil
	}
	repair := "set [libvirt] live_migration_scheme = tls, make the certificates that the guide describes, and run " +
		"`systemctl stop libvirtd && systemctl enable --now libvirtd-tls.socket && systemctl start libvirtd`; `berth init` " +
		"does all of it on hosts that it joins"
	return []string{"with several hosts: no server moves from or to this one: " + fault.TextOf(err) + "; " + repair}
}

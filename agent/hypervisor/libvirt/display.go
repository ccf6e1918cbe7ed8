package libvirt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"syscall"

	"github.com/openberth/berth/agent/hypervisor/libvirt/domainxml"
	"github.com/openberth/berth/agent/hypervisor/libvirt/rpc"
	"github.com/openberth/berth/fault"
)

// OpenDisplay implements hypervisor.Displays: it connects to the UNIX socket of the VNC server of a guest.
func (d *Driver) OpenDisplay(ctx context.Context, id string) (io.ReadWriteCloser, error) {
	c, found, err := runningGuest(ctx, d, id)
	if err != nil {
		return nil, err
	}
	text, err := c.XML(ctx, found.Domain, rpc.Live)
	if err != nil {
		return nil, fault.Wrap("", err)
	}
	live, err := domainxml.Decode(text)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err)
	}
	path := live.DisplaySocket()
	if path == "" {
		return nil, fault.New(fault.Conflict, "the guest %s has no display; set [vnc] enabled on its host, remove "+
			"hw_video_model=none from its image, and rebuild or move the server", id)
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		path = rootOf(cmp.Or(d.o.Socket, defaultSocket)) + path
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "the display of the guest %s does not answer: %w", id, err)
	}
	return conn, nil
}

// defaultSocket is that of the libvirt of the machine.
const defaultSocket = "/run/libvirt/libvirt-sock"

// rootOf returns the root directory of the process that listens on a UNIX socket, which may have mounts of its own, as
// that of `berth demo --real`; empty: it is not known.
func rootOf(socket string) string {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return ""
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return ""
	}
	pid := int32(0)
	err = raw.Control(func(fd uintptr) {
		if peer, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
			pid = peer.Pid
		}
	})
	if err != nil || pid == 0 {
		return ""
	}
	return fmt.Sprintf("/proc/%d/root", pid)
}

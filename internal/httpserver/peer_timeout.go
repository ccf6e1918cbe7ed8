package httpserver

import (
	"syscall"
	"time"
)

const (
	// peerTimeout is how long sent data may stay unacknowledged before the kernel closes the connection. An open stream
	// of assignments counts as a heartbeat of its agent, so a stream to a machine that is down must not stay open.
	peerTimeout = 45 * time.Second

	tcpUserTimeout = 18 // TCP_USER_TIMEOUT of tcp(7), in milliseconds; connections inherit it from their listener
)

// setPeerTimeout sets peerTimeout on a listening socket; it is net.ListenConfig.Control.
func setPeerTimeout(_, _ string, raw syscall.RawConn) (err error) {
	control := raw.Control(func(fd uintptr) {
		err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(peerTimeout.Milliseconds()))
	})
	if control != nil {
		return control
	}
	return err
}

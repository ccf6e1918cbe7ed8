package httpserver

import (
	"syscall"
	"time"
)

const (
	// peerTimeout is how long what was sent to a client may stay unacknowledged before the kernel ends the connection.
	// An open stream of assignments counts as a sign that an agent lives, so one to a machine that is gone must not
	// stay open.
	peerTimeout = 45 * time.Second

	tcpUserTimeout = 18 // TCP_USER_TIMEOUT of tcp(7), in milliseconds; connections inherit it from their listener
)

// noticeSilence sets peerTimeout on a listening socket.
func setPeerTimeout(_, _ string, raw syscall.RawConn) (err error) {
	control := raw.Control(func(fd uintptr) {
		err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(peerTimeout.Milliseconds()))
	})
	if control != nil {
		return control
	}
	return err
}

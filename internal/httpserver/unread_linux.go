package httpserver

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// unread returns how many bytes the kernel has received on a connection that were not read, 0 if that is not known
// (tcp(7), SIOCINQ).
func unread(conn net.Conn) (n int) {
	source, ok := conn.(syscall.Conn)
	if !ok {
		return 0
	}
	raw, err := source.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	}
	if err != nil {
		return 0
	}
	return n
}

package httpserver

import (
	"net"
	"syscall"
	"testing"
)

// An accepted connection has peerTimeout: it ends if its client stops acknowledging.
func TestAcceptedConnectionsHavePeerTimeout(t *testing.T) {
	l, err := Listen("--listen", "127.0.0.1:0", true)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var timeout int
	var got error
	if err := raw.Control(func(fd uintptr) {
		timeout, got = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP,
			tcpUserTimeout)
	}); err != nil || got != nil {
		t.Fatal(err, got)
	}
	if timeout != int(peerTimeout.Milliseconds()) {
		t.Errorf("%d ms", timeout)
	}
}

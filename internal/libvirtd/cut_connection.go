package libvirtd

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// effects are the procedures of libvirt's protocol that change a domain: create, shut down, attach and detach a device,
// start, undefine, destroy, set the metadata, define.
var effects = map[uint32]bool{10: true, 33: true, 160: true, 161: true, 196: true, 231: true, 234: true, 264: true,
	350: true}

// Cut returns a socket of the daemon that ends at a point, for a client that is killed there: 2n is before the client's
// effect n on domains (from 0), 2n+1 is after the daemon has carried it out and before its answer. All connections of
// the socket end there, and new ones are refused. reached reports whether a client has come to the point.
func (d *Daemon) Cut(t testing.TB, point int) (socket string, reached func() bool) {
	t.Helper()
	dir, err := os.MkdirTemp(d.dir, "cut")
	if err != nil {
		t.Fatal(err)
	}
	c := &cut{to: d.Socket, point: point}
	socket = filepath.Join(dir, "sock")
	if c.listener, err = net.Listen("unix", socket); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.end)
	go func() {
		for {
			client, err := c.listener.Accept()
			if err != nil {
				return // the socket has ended
			}
			go c.serve(client)
		}
	}()
	return socket, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.reached
	}
}

// cut is a socket that ends at a point.
type cut struct {
	to       string
	point    int
	listener net.Listener

	mu      sync.Mutex
	next    int // point of the next effect
	reached bool
	last    uint32 // serial number of the call after whose answer the socket ends
	open    []net.Conn
}

// end ends the socket and its connections.
func (c *cut) end() {
	c.listener.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.open {
		one.Close()
	}
}

// serve forwards messages between a client and the daemon.
func (c *cut) serve(client net.Conn) {
	daemon, err := net.Dial("unix", c.to)
	if err != nil {
		client.Close()
		return
	}
	c.mu.Lock()
	c.open = append(c.open, client, daemon)
	ended := c.reached
	c.mu.Unlock()
	if ended {
		c.end()
		return
	}
	go forward(client, daemon, c.passesCall)
	forward(daemon, client, c.passesAnswer)
	client.Close()
	daemon.Close()
}

// The words of a message, after its length.
const (
	wordProcedure = 2
	wordKind      = 3 // 0: call, 1: answer
	wordSerial    = 4
	words         = 6
)

// passesCall reports whether a call is forwarded to the daemon.
func (c *cut) passesCall(header [words]uint32) bool {
	if header[wordKind] != 0 || !effects[header[wordProcedure]] {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.next
	c.next += 2
	switch {
	case c.reached || before == c.point:
		c.reached = true
		return false
	case before+1 == c.point:
		c.last = header[wordSerial]
	}
	return true
}

// passesAnswer reports whether a message of the daemon is forwarded to the client.
func (c *cut) passesAnswer(header [words]uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last != 0 && header[wordKind] == 1 && header[wordSerial] == c.last {
		c.reached = true
	}
	return !c.reached
}

// forward forwards messages until one does not pass.
func forward(from, to net.Conn, passes func(header [words]uint32) bool) {
	defer to.Close()
	defer from.Close()
	for {
		message := make([]byte, 4+4*words)
		if _, err := io.ReadFull(from, message); err != nil {
			return
		}
		var header [words]uint32
		for n := range header {
			header[n] = binary.BigEndian.Uint32(message[4+4*n:])
		}
		rest := make([]byte, max(0, int(binary.BigEndian.Uint32(message))-len(message)))
		if _, err := io.ReadFull(from, rest); err != nil || !passes(header) {
			return
		}
		if _, err := to.Write(append(message, rest...)); err != nil {
			return
		}
	}
}

// RefuseDefinitions lets the daemon fail when it writes the definition of a domain, which it has checked and has in
// memory, until accept is called: the directory of definitions is read-only.
func (d *Daemon) RefuseDefinitions(t testing.TB) (accept func()) {
	t.Helper()
	const dir = "/etc/libvirt/qemu"
	run(t, d.Command(t.Context(), "mount", "--bind", dir, dir))
	run(t, d.Command(t.Context(), "mount", "-o", "remount,bind,ro", dir))
	return func() { run(t, d.Command(t.Context(), "umount", dir)) }
}

package sqldb

import (
	"context"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"
)

// The limits of a connection to a database server, unless the URL sets others.
const (
	dialTimeout = 10 * time.Second // to connect
	ioTimeout   = 60 * time.Second // to send a statement or wait for its answer; longer than the wait for a row lock
	tcpTimeout  = 30 * time.Second // TCP_USER_TIMEOUT: to wait for the other machine to acknowledge data
)

// dialer returns a function that connects to a server within the time connect. It closes a connection when the
// server's machine acknowledges nothing for the time user: after a power loss, or when the network is interrupted. 0
// means no limit.
func dialer(connect, user time.Duration) func(ctx context.Context, network, addr string) (net.Conn, error) {
	d := net.Dialer{
		Timeout: connect,
		ControlContext: func(_ context.Context, network, _ string, c syscall.RawConn) error {
			if user == 0 || !strings.HasPrefix(network, "tcp") {
				return nil
			}
			var failed error
			if err := c.Control(func(fd uintptr) { failed = setUserTimeout(fd, user) }); err != nil {
				return err
			}
			return failed
		},
	}
	return d.DialContext
}

// timedConn is a connection whose every read and write has a time limit, for a driver that has none. Deadlines that
// the driver sets itself stay in force when they are earlier.
type timedConn struct {
	net.Conn
	limit time.Duration

	mu          sync.Mutex
	read, write time.Time // set by the driver; zero means no deadline
}

// Read implements net.Conn.
func (c *timedConn) Read(p []byte) (int, error) {
	if err := c.arm(&c.read, c.Conn.SetReadDeadline); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

// Write implements net.Conn.
func (c *timedConn) Write(p []byte) (int, error) {
	if err := c.arm(&c.write, c.Conn.SetWriteDeadline); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// arm sets the deadline for one read or write.
func (c *timedConn) arm(own *time.Time, set func(time.Time) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	deadline := time.Now().Add(c.limit)
	if !own.IsZero() && own.Before(deadline) {
		deadline = *own
	}
	return set(deadline)
}

// SetDeadline implements net.Conn.
func (c *timedConn) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read, c.write = t, t
	return c.Conn.SetDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (c *timedConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read = t
	return c.Conn.SetReadDeadline(t)
}

// SetWriteDeadline implements net.Conn.
func (c *timedConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.write = t
	return c.Conn.SetWriteDeadline(t)
}

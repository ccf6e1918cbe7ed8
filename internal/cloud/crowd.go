package cloud

import (
	"net"
	"net/http"
	"sync"
)

// crowd lets only so many connections in at a time. When all places are taken, a connection that is idle between two requests makes room for
// a new one, as HTTP lets a server do at any time; while none is idle, new ones wait where the kernel keeps them, and none is refused.
type crowd struct {
	net.Listener
	most int

	mu   sync.Mutex
	room sync.Cond // of mu: something has changed
	in   int
	idle map[net.Conn]bool
	shut bool
}

func newCrowd(l net.Listener, most int) *crowd {
	c := &crowd{Listener: l, most: most, idle: map[net.Conn]bool{}}
	c.room.L = &c.mu
	return c
}

// Accept implements net.Listener. The connection at hand waits until it has a place; nobody knows that somebody waits before he is let in.
func (c *crowd) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if !c.enter() {
		_ = conn.Close() // nobody has read anything of it
		return nil, net.ErrClosed
	}
	return &guest{Conn: conn, leave: sync.OnceFunc(c.leave)}, nil
}

// enter waits for a place; false when the listener is closed meanwhile.
func (c *crowd) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.in >= c.most && !c.shut {
		if !c.dismiss() {
			c.room.Wait()
		}
	}
	if c.shut {
		return false
	}
	c.in++
	return true
}

// dismiss closes an idle connection, if there is one. It is called with mu held, and is without it for a moment.
func (c *crowd) dismiss() bool {
	for conn := range c.idle {
		delete(c.idle, conn)
		c.mu.Unlock()
		_ = conn.Close() // it is not ours to report that it was closed already
		c.mu.Lock()
		return true
	}
	return false
}

func (c *crowd) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.in--
	c.room.Broadcast()
}

// Close implements net.Listener.
func (c *crowd) Close() error {
	c.mu.Lock()
	c.shut = true
	c.room.Broadcast()
	c.mu.Unlock()
	return c.Listener.Close()
}

// note is http.Server's ConnState: it tells which connections are idle.
func (c *crowd) note(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if state == http.StateIdle {
		c.idle[conn] = true
		c.room.Broadcast()
		return
	}
	delete(c.idle, conn)
}

// guest is a connection that has a place until it is closed.
type guest struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (g *guest) Close() error {
	defer g.leave()
	return g.Conn.Close()
}

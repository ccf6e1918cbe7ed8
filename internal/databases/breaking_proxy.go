package databases

import (
	"bytes"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// Proxy forwards connections between clients and a server, and breaks connections at a chosen moment.
type Proxy struct {
	Addr string // host:port

	first    string // the server it was made for
	listener net.Listener
	all      sync.WaitGroup

	mu     sync.Mutex
	target string            // the server of new connections
	open   map[net.Conn]bool // both sides
	plans  []Cut
	cuts   int
	thawed chan struct{} // closed unless frozen
}

// Cut is one connection to break, or to keep waiting.
type Cut struct {
	Stall        bool          // keep the connection open, but forward neither Word nor a response
	Word         string        // text that the client sends in one packet, in any case: a part of a statement; empty: any
	Skip         int           // how many matching packets are forwarded before
	LoseResponse bool          // forward Word and lose only the response; otherwise lose Word
	Linger       time.Duration // how long the connection to the server stays open after the client's is broken
	Do           func()        // nil: nothing; otherwise called before the connection is broken or stalled
}

// NewProxy starts a proxy for a server, until the test ends.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Addr: l.Addr().String(), target: target, first: target, listener: l, open: map[net.Conn]bool{},
		thawed: make(chan struct{})}
	close(p.thawed)
	p.all.Go(p.accept)
	t.Cleanup(func() {
		p.listener.Close()
		p.Thaw()
		p.Drop()
		p.all.Wait()
	})
	return p
}

// URL returns a URL of the server with the proxy's address instead of the server's.
func (p *Proxy) URL(url string) string { return strings.Replace(url, p.first, p.Addr, 1) }

// Break schedules cuts: each breaks the next connection that sends its Word, in this order.
func (p *Proxy) Break(cuts ...Cut) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plans = append(p.plans, cuts...)
}

// Freeze stops forwarding in both directions on all connections, including new ones. Nothing is closed or lost, as with
// a stalled server.
func (p *Proxy) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.thawed = make(chan struct{})
}

// Thaw forwards the held data again. Call it after Freeze.
func (p *Proxy) Thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.thawed:
	default:
		close(p.thawed)
	}
}

// forwarding waits while the proxy is frozen.
func (p *Proxy) forwarding() {
	p.mu.Lock()
	thawed := p.thawed
	p.mu.Unlock()
	<-thawed
}

// Turn directs new connections to another server.
func (p *Proxy) Turn(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// Target returns the server of new connections.
func (p *Proxy) Target() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.target
}

// Repair removes scheduled cuts that have not happened.
func (p *Proxy) Repair() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plans = nil
}

// Broken returns the number of cuts that have happened.
func (p *Proxy) Broken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}

// Drop breaks all open connections.
func (p *Proxy) Drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.open {
		conn.Close()
	}
}

// accept forwards connections until the listener is closed.
func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed: the test has ended
		}
		p.all.Go(func() { p.pass(client) })
	}
}

// pass forwards one connection.
func (p *Proxy) pass(client net.Conn) {
	p.track(client)
	defer p.untrack(client)
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	p.track(server)
	defer p.untrack(server)
	answered := make(chan struct{}, 1) // data arrived from the server
	swallow := make(chan struct{})     // closed when responses must be lost
	p.all.Go(func() {
		p.answers(client, server, answered, swallow)
		client.Close()
	})
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		p.forwarding()
		if cut, ok := p.due(buffer[:n]); ok {
			if cut.Stall {
				if cut.Do != nil {
					cut.Do()
				}
				continue
			}
			if cut.LoseResponse {
				close(swallow)
				drain(answered)
				if _, err := server.Write(buffer[:n]); err == nil {
					<-answered
				}
			}
			if cut.Do != nil {
				cut.Do()
			}
			client.Close()
			time.Sleep(cut.Linger)
			return
		}
		if _, failed := server.Write(buffer[:n]); errors.Join(err, failed) != nil {
			return
		}
	}
}

// answers forwards data from the server to the client.
func (p *Proxy) answers(client, server net.Conn, answered chan<- struct{}, swallow <-chan struct{}) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		p.forwarding()
		select {
		case answered <- struct{}{}:
		default:
		}
		select {
		case <-swallow:
		default:
			if _, failed := client.Write(buffer[:n]); failed != nil && err == nil {
				err = failed
			}
		}
		if err != nil {
			return
		}
	}
}

func drain(c <-chan struct{}) {
	select {
	case <-c:
	default:
	}
}

// due returns the scheduled cut that this data of a client triggers, and removes it.
func (p *Proxy) due(words []byte) (Cut, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(words) == 0 || len(p.plans) == 0 || !bytes.Contains(bytes.ToUpper(words),
		[]byte(strings.ToUpper(p.plans[0].Word))) {
		return Cut{}, false
	}
	cut := p.plans[0]
	if cut.Skip > 0 {
		p.plans[0].Skip--
		return Cut{}, false
	}
	p.plans, p.cuts = p.plans[1:], p.cuts+1
	return cut, true
}

func (p *Proxy) track(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[conn] = true
}

func (p *Proxy) untrack(conn net.Conn) {
	conn.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, conn)
}

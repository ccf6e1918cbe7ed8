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

// Proxy stands between clients and a server, and breaks connections at a chosen moment.
type Proxy struct {
	Addr string // host:port

	first    string // the server it was made for
	listener net.Listener
	all      sync.WaitGroup

	mu     sync.Mutex
	target string            // where new connections lead
	open   map[net.Conn]bool // both sides
	plans  []Cut
	cuts   int
	thawed chan struct{} // closed unless frozen
}

// Cut is one connection to break, or to keep waiting.
type Cut struct {
	Stall  bool          // nothing is broken: the server never hears the word, and the client never an answer
	Word   string        // said by the client, in any case, in one piece: a statement or a part of one; empty: anything
	Skip   int           // how many such pieces pass before
	Heard  bool          // the server hears the word and answers it, and only the answer is lost; else it never hears it
	Linger time.Duration // how long the server's side stays open when the client's is broken
}

// NewProxy lets clients of a server pass until the test ends.
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

// URL is a URL of the server with the proxy's address in place of the server's.
func (p *Proxy) URL(url string) string { return strings.Replace(url, p.first, p.Addr, 1) }

// Break plans to break connections: each of them the next one on which its word is said, in this order.
func (p *Proxy) Break(cuts ...Cut) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plans = append(p.plans, cuts...)
}

// Freeze stops forwarding, both ways and on all connections, also new ones. Nothing is closed or lost: clients see a
// server that has stalled.
func (p *Proxy) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.thawed = make(chan struct{})
}

// Thaw forwards again what was held back. Call it after Freeze.
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

// Turn leads new connections to another server.
func (p *Proxy) Turn(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// Target is the server that new connections lead to.
func (p *Proxy) Target() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.target
}

// Mend gives up the cuts that were planned and not made.
func (p *Proxy) Mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plans = nil
}

// Broken counts the cuts that were made.
func (p *Proxy) Broken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}

// Drop breaks all connections that are open now.
func (p *Proxy) Drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.open {
		conn.Close()
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed: the test is over
		}
		p.all.Go(func() { p.pass(client) })
	}
}

// pass carries one connection.
func (p *Proxy) pass(client net.Conn) {
	p.know(client)
	defer p.forget(client)
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	p.know(server)
	defer p.forget(server)
	answered := make(chan struct{}, 1) // something came from the server
	swallow := make(chan struct{})     // closed when answers are to be lost
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
				continue
			}
			if cut.Heard {
				close(swallow)
				drain(answered)
				if _, err := server.Write(buffer[:n]); err == nil {
					<-answered
				}
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

// answers carries what the server says.
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

// due takes the plan that these words of a client fulfil.
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

func (p *Proxy) know(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[conn] = true
}

func (p *Proxy) forget(conn net.Conn) {
	conn.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, conn)
}

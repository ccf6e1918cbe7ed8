package httpserver

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/internal/testenv"
)

// Connections beyond the limit wait until another one ends; an idle connection is closed for a new one at once.
func TestTotalLimit(t *testing.T) {
	lim := defaultLimits()
	lim.maxTotal = 2
	work, begun := make(chan struct{}), make(chan struct{}, 10)
	s := startServer(t, t.Context(), lim, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/work" {
			begun <- struct{}{}
			<-work
		}
		_, _ = io.WriteString(w, "done")
	}))
	const idle, busy = "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "GET /work HTTP/1.1\r\nHost: x\r\n\r\n"
	first := s.raw(busy)
	<-begun
	second := s.raw(idle)
	reader := bufio.NewReader(second)
	finished(t, reader)
	third := s.raw(busy) // replaces the second, which is idle
	<-begun
	if _, err := reader.ReadByte(); err != io.EOF {
		t.Errorf("the idle connection: %v", err)
	}
	fourth := s.raw(idle)
	if err := fourth.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(fourth).ReadByte(); err == nil || !isTimeout(err) {
		t.Errorf("a connection beyond the limit does not wait: %v", err)
	}
	if err := fourth.SetReadDeadline(time.Now().Add(testenv.Patience)); err != nil {
		t.Fatal(err)
	}
	close(work)
	for _, conn := range []net.Conn{first, third, fourth} {
		finished(t, bufio.NewReader(conn))
	}
	s.stop()
	if err := s.end(); err != nil {
		t.Error(err)
	}
}

// A connection that was just opened is not closed for a newer one: its request may not have arrived yet.
func TestNewConnectionsAreNotReplaced(t *testing.T) {
	lim := defaultLimits()
	lim.maxTotal, lim.stalledAfter = 1, testenv.Patience
	s := startServer(t, t.Context(), lim, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "done")
	}))
	const request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	first := s.raw("")
	second := s.raw(request)
	if err := first.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Read(make([]byte, 1)); err == nil || !isTimeout(err) {
		t.Fatalf("a new connection was replaced by a newer one: %v", err)
	}
	if err := first.SetReadDeadline(time.Now().Add(testenv.Patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(first, request); err != nil {
		t.Fatal(err)
	}
	finished(t, bufio.NewReader(first))
	finished(t, bufio.NewReader(second)) // replaces the first, which is idle
	s.stop()
	if err := s.end(); err != nil {
		t.Error(err)
	}
}

// A connection whose request has arrived is not closed for a newer one while the server, on a busy machine, has read
// nothing of it.
func TestUnreadRequestIsNotReplaced(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	lim := defaultLimits()
	lim.maxTotal, lim.stalledAfter = 1, 0
	c := newConnLimiter(listener, lim, slog.New(slog.DiscardHandler))
	defer c.Close()
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	client := dial()
	accepted, err := c.Accept()
	if err != nil {
		t.Fatal(err)
	}
	g := limitedConnOf(accepted)
	if _, ok := g.evictionRank(time.Now()); !ok {
		t.Error("a connection without a request is not replaced")
	}
	if _, err := io.WriteString(client, "GET / HTTP/1.1\r\n"); err != nil {
		t.Fatal(err)
	}
	for !g.waits() { // until the bytes have arrived
		time.Sleep(time.Millisecond)
	}
	if _, ok := g.evictionRank(time.Now()); ok {
		t.Error("a connection whose request has arrived is replaced")
	}
	if _, err := accepted.Read(make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	if _, ok := g.evictionRank(time.Now()); !ok {
		t.Error("a connection with a part of a header that the server has read is not replaced")
	}
}

func isTimeout(err error) bool {
	timeout, ok := err.(net.Error)
	return ok && timeout.Timeout()
}

func finished(t *testing.T, from *bufio.Reader) {
	t.Helper()
	resp, err := http.ReadResponse(from, nil)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "done" {
		t.Fatalf("%q %v", body, err)
	}
}

// An address at its limit gets no further connection while all its connections have running requests; other addresses
// do. If one of its connections waits for the client, that one is closed for a new one.
func TestLimitForAddress(t *testing.T) {
	lim := defaultLimits()
	lim.maxTotal, lim.maxForAddress = 10, ConnLimits{Total: 10, PerAddress: 3, PerLoopback: 3}.forAddress
	work, begun := make(chan struct{}), make(chan struct{}, 10)
	s := startServer(t, t.Context(), lim, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/work" {
			begun <- struct{}{}
			<-work
		}
		_, _ = io.WriteString(w, "done")
	}))
	const quick, busy = "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "GET /work HTTP/1.1\r\nHost: x\r\n\r\n"
	var working []net.Conn
	for range 3 {
		working = append(working, s.raw(busy))
		<-begun
	}
	refused, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer refused.Close()
	if err := refused.SetDeadline(time.Now().Add(testenv.Patience)); err != nil {
		t.Fatal(err)
	}
	if n, err := refused.Read(make([]byte, 1)); n != 0 || err == nil || isTimeout(err) {
		t.Errorf("a connection beyond the limit: %d bytes, %v", n, err)
	}
	other := s.from("127.0.0.2", quick)
	finished(t, bufio.NewReader(other))
	close(work)
	for _, conn := range working {
		finished(t, bufio.NewReader(conn))
	}
	for range 3 { // the three are idle now and can be closed
		finished(t, bufio.NewReader(s.raw(quick)))
	}
	if _, err := other.Write([]byte(quick)); err != nil {
		t.Errorf("the connection of another address was closed: %v", err)
	}
	finished(t, bufio.NewReader(other))
	s.stop()
	if err := s.end(); err != nil {
		t.Error(err)
	}
}

// Addresses are grouped into clients, each with its limit.
func TestAddressOf(t *testing.T) {
	c := ConnLimits{Total: 100, PerAddress: 7, PerLoopback: 9}
	for address, want := range map[string]string{
		"127.0.0.1": "127.0.0.1/32 9", "127.8.0.1": "127.8.0.1/32 9", "::1": "::1/128 9",
		"::ffff:127.0.0.1": "127.0.0.1/32 9",
		"192.0.2.1":        "192.0.2.1/32 7", "::ffff:192.0.2.1": "192.0.2.1/32 7",
		"2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64 7", "fe80::1%eth0": "fe80::/64 7",
	} {
		conn := fromAddress{remote: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(address), 1))}
		a := addressOf(conn)
		if got := fmt.Sprint(a, " ", c.forAddress(a)); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
	if a := addressOf(fromAddress{remote: &net.UnixAddr{Name: "/socket"}}); a.IsValid() || c.forAddress(a) != 9 {
		t.Errorf("a Unix socket: %v, %d", a, c.forAddress(a))
	}
}

type fromAddress struct {
	net.Conn
	remote net.Addr
}

func (f fromAddress) RemoteAddr() net.Addr { return f.remote }

// A server at its connection limit can be stopped.
func TestFullServerStops(t *testing.T) {
	lim := defaultLimits()
	lim.maxTotal = 1
	work, begun := make(chan struct{}), make(chan struct{}, 1)
	s := startServer(t, t.Context(), lim, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		<-work
		_, _ = io.WriteString(w, "done")
	}))
	first := s.raw("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	<-begun
	waiting := s.raw("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	time.Sleep(20 * time.Millisecond) // usually it then waits in Accept; the test is also valid otherwise
	s.stop()
	s.refuses()
	close(work)
	finished(t, bufio.NewReader(first))
	if _, err := io.Copy(io.Discard, waiting); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Error(err)
	}
	if err := s.end(); err != nil {
		t.Error(err)
	}
}

// A server that is stopped during fifty running requests and fifty incomplete ones answers all of them.
func TestStopAnswersStartedRequests(t *testing.T) {
	const many = 50
	work, begun := make(chan struct{}), make(chan struct{}, 2*many)
	s := startServer(t, t.Context(), defaultLimits(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		if r.Method == "GET" {
			<-work
		} else if body, err := io.ReadAll(r.Body); err != nil || len(body) != 100 {
			t.Errorf("%d bytes: %v", len(body), err)
		}
		_, _ = io.WriteString(w, "done")
	}))
	working, sending := make([]net.Conn, many), make([]net.Conn, many)
	for i := range many {
		working[i] = s.raw("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		sending[i] = s.raw("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf")
	}
	for range 2 * many {
		<-begun
	}
	s.stop()
	s.refuses()
	for _, conn := range sending {
		if _, err := fmt.Fprint(conn, strings.Repeat("x", 96)); err != nil {
			t.Error(err)
		}
	}
	close(work)
	for i := range many {
		finished(t, bufio.NewReader(working[i]))
		finished(t, bufio.NewReader(sending[i]))
	}
	if err := s.end(); err != nil {
		t.Error(err)
	}
}

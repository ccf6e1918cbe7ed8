package httpserver

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/openberth/berth/internal/testenv"
)

// turnConn returns a connection of a limiter. What is written to it is discarded.
func turnConn(t *testing.T) *limitedConn {
	a, b := net.Pipe()
	t.Cleanup(func() { _, _ = a.Close(), b.Close() })
	go func() { _, _ = io.Copy(io.Discard, b) }()
	return &limitedConn{Conn: a, release: func() {}}
}

// A handshake waits while the turns are taken, fails at its limit or when its context ends, and begins when another one
// writes or is closed. A turn ends once.
func TestHandshakeTurns(t *testing.T) {
	turns := &handshakeTurns{slots: make(chan struct{}, 1), limit: testenv.Patience}
	first, second, third := turnConn(t), turnConn(t), turnConn(t)
	if err := turns.take(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	turns.limit = time.Millisecond
	if err := turns.take(t.Context(), second); !errors.Is(err, errLateTurn) {
		t.Errorf("a late handshake: %v", err)
	}
	turns.limit = testenv.Patience
	ended, stop := context.WithCancel(t.Context())
	stop()
	if err := turns.take(ended, second); !errors.Is(err, context.Canceled) {
		t.Errorf("a handshake whose context has ended: %v", err)
	}
	took := make(chan error, 1)
	go func() { took <- turns.take(t.Context(), second) }()
	if _, err := first.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := <-took; err != nil {
		t.Fatal(err)
	}
	go func() { took <- turns.take(t.Context(), third) }()
	if err := errors.Join(second.Close(), <-took); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(third.Close(), third.Close(), first.Close()); err != nil {
		t.Fatal(err)
	}
	if n := len(turns.slots); n != 0 {
		t.Errorf("%d turns are still taken", n)
	}
}

// recorder is a connection that keeps what is written first, and then fails.
type recorder struct {
	net.Conn
	hello []byte
}

func (r *recorder) Write(p []byte) (int, error) {
	r.hello = append(r.hello, p...)
	return 0, io.ErrClosedPipe
}

// Clients that begin a handshake and do nothing more take no turn from others.
func TestStalledHandshakesTakeNoTurnOverTLS(t *testing.T) {
	lim := defaultLimits()
	lim.headerTimeout = 2 * testenv.Patience // no handshake is ended before the request must be
	s := startServer(t, t.Context(), lim, http.NotFoundHandler())
	first := &recorder{}
	config := s.ca.Client()
	config.ServerName = "localhost"
	if err := tls.Client(first, config).HandshakeContext(t.Context()); err == nil || len(first.hello) == 0 {
		t.Fatalf("there is no ClientHello: %v", err)
	}
	for range 4 * cap(newHandshakeTurns(0).slots) {
		conn, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Write(first.hello); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan error, 1)
	go func() {
		resp, err := s.get("/")
		if err == nil {
			err = resp.Body.Close()
		}
		ended <- err
	}()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(testenv.Patience):
		t.Error("a handshake waits for clients that stall")
	}
}

package rest

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/openberth/berth/fault"
)

// guard is a check that fails once refuse is set.
type guard struct{ refuse atomic.Bool }

func (g *guard) check() error {
	if g.refuse.Load() {
		return fault.New(fault.Unavailable, "the lease has ended")
	}
	return nil
}

// refused sends a request and reports an error unless check's fault is returned.
func (g *guard) refused(t *testing.T, c *Client) {
	t.Helper()
	_, err := c.Do(t.Context(), "PUT", "/a", "body", nil)
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "the lease has ended") {
		t.Errorf("the error is %v", err)
	}
}

// A guarded client sends nothing after its check fails, over a socket and in memory, and returns the check's error.
func TestGuard(t *testing.T) {
	var served atomic.Int32
	h := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) })
	transports(t, h, func(t *testing.T, c *Client) {
		var g guard
		served.Store(0)
		c.HTTP = Guard(c.HTTP, g.check)
		if _, err := c.Do(t.Context(), "PUT", "/a", "body", nil); err != nil || served.Load() != 1 {
			t.Fatalf("%d requests were served: %v", served.Load(), err)
		}
		g.refuse.Store(true)
		g.refused(t, c)
		if served.Load() != 1 {
			t.Errorf("%d requests were served", served.Load())
		}
	})
}

// If the check fails while the request waits for its connection, nothing is sent.
func TestGuardWhileConnecting(t *testing.T) {
	var served atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) }))
	defer s.Close()
	var g guard
	slow := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		g.refuse.Store(true)
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
	g.refused(t, &Client{Base: s.URL, HTTP: Guard(&http.Client{Transport: slow}, g.check)})
	if served.Load() != 0 {
		t.Errorf("%d requests were served", served.Load())
	}
}

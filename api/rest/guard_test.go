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

// A guarded client sends nothing once its check fails, over a socket and in memory, and says why.
func TestGuard(t *testing.T) {
	var served atomic.Int32
	h := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) })
	roads(t, h, func(t *testing.T, c *Client) {
		served.Store(0)
		var refuse atomic.Bool
		c.HTTP = Guard(c.HTTP, func() error {
			if refuse.Load() {
				return fault.New(fault.Unavailable, "", "the lease has ended")
			}
			return nil
		})
		if _, err := c.Do(t.Context(), "PUT", "/a", "body", nil); err != nil || served.Load() != 1 {
			t.Fatalf("%d requests were served: %v", served.Load(), err)
		}
		refuse.Store(true)
		_, err := c.Do(t.Context(), "PUT", "/a", "body", nil)
		if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "the lease has ended") || served.Load() != 1 {
			t.Errorf("%d requests were served: %v", served.Load(), err)
		}
	})
}

// The check fails while the request waits for its connection: nothing of it is sent.
func TestGuardWhileConnecting(t *testing.T) {
	var served atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) }))
	defer s.Close()
	var refuse atomic.Bool
	slow := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		refuse.Store(true)
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
	c := &Client{Base: s.URL, HTTP: Guard(&http.Client{Transport: slow}, func() error {
		if refuse.Load() {
			return fault.New(fault.Unavailable, "", "the lease has ended")
		}
		return nil
	})}
	_, err := c.Do(t.Context(), "PUT", "/a", "body", nil)
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "the lease has ended") || served.Load() != 0 {
		t.Errorf("%d requests were served: %v", served.Load(), err)
	}
}

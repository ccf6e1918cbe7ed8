package rest

import (
	"context"
	"net"
	"net/http"
)

// Guard returns a client that calls check immediately before it sends anything, and returns check's error instead of
// sending. Over sockets it also calls check before each write to a connection, so that a request is also refused after
// it has waited for its connection or the process was suspended. A nil client means one with a timeout of one minute,
// as in Client.
func Guard(client *http.Client, check func() error) *http.Client {
	if client == nil {
		client = defaultHTTP
	}
	guarded := *client
	inner := client.Transport
	if inner == nil {
		inner = http.DefaultTransport
	}
	if t, ok := inner.(*http.Transport); ok {
		own := t.Clone()
		dial := own.DialContext
		if dial == nil {
			dial = new(net.Dialer).DialContext
		}
		own.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return guardedConn{conn, check}, nil
		}
		inner = own
	}
	guarded.Transport = guardedTransport{inner, check}
	return &guarded
}

type guardedTransport struct {
	http.RoundTripper
	check func() error
}

// RoundTrip implements http.RoundTripper.
func (t guardedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := t.check(); err != nil {
		if r.Body != nil {
			r.Body.Close() // the interface requires it
		}
		return nil, err
	}
	return t.RoundTripper.RoundTrip(r)
}

type guardedConn struct {
	net.Conn
	check func() error
}

// Write implements net.Conn.
func (c guardedConn) Write(p []byte) (int, error) {
	if err := c.check(); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

package bench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"
)

// Conn is one client: a connection that is kept as long as the server keeps it. It is for one goroutine.
type Conn struct {
	Patience time.Duration // time limit for a response
	Compute  string        // microversion of the Compute API; empty: its oldest
	From     net.Addr      // address of the client; nil: any
	TLS      *tls.Config   // nil: without TLS

	addr    string
	wire    net.Conn // nil: not connected
	in      *bufio.Reader
	request []byte
	answer  bytes.Buffer
}

// Dial returns a client of the server at an address, host:port. It connects at the first request.
func Dial(addr string) *Conn {
	return &Conn{Patience: 2 * time.Minute, addr: addr, in: bufio.NewReaderSize(nil, 64<<10)}
}

// connect opens a connection to the server.
func (c *Conn) connect(ctx context.Context) (net.Conn, error) {
	dialer := &net.Dialer{LocalAddr: c.From, Timeout: c.Patience}
	if c.TLS == nil {
		return dialer.DialContext(ctx, "tcp", c.addr)
	}
	return (&tls.Dialer{NetDialer: dialer, Config: c.TLS}).DialContext(ctx, "tcp", c.addr)
}

// Close ends the connection.
func (c *Conn) Close() {
	if c.wire != nil {
		c.wire.Close() // no request is pending
		c.wire = nil
	}
}

// Do sends a request at Placement's newest microversion, as admin, and reads the response. The next request overwrites
// the returned body. A connection that the server closed between two requests is opened again.
func (c *Conn) Do(method, target string, body []byte) (status int, answer []byte, err error) {
	r := append(c.request[:0], method...)
	r = append(append(append(r, ' '), target...), " HTTP/1.1\r\nHost: "...)
	r = append(r, c.addr...)
	r = append(r, "\r\nX-Auth-Token: admin\r\nAccept: application/json\r\nOpenStack-API-Version: placement 1.39\r\n"...)
	if c.Compute != "" {
		r = append(append(append(r, "X-OpenStack-Nova-API-Version: "...), c.Compute...), "\r\n"...)
	}
	if body != nil {
		r = append(r, "Content-Type: application/json\r\n"...)
	}
	r = append(strconv.AppendInt(append(r, "Content-Length: "...), int64(len(body)), 10), "\r\n\r\n"...)
	c.request = append(r, body...)
	kept := c.wire != nil
	status, begun, err := c.once(method)
	if err != nil && kept && !begun {
		status, _, err = c.once(method)
	}
	if err != nil {
		return 0, nil, fmt.Errorf("%s %s: %w", method, target, err)
	}
	return status, c.answer.Bytes(), nil
}

// once sends the request and reads the response. begun reports whether the server began to respond.
func (c *Conn) once(method string) (status int, begun bool, err error) {
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	if c.wire == nil {
		if c.wire, err = c.connect(context.Background()); err != nil {
			return 0, false, err
		}
		c.in.Reset(c.wire)
	}
	if err := c.wire.SetDeadline(time.Now().Add(c.Patience)); err != nil {
		return 0, false, err
	}
	if _, err := c.wire.Write(c.request); err != nil {
		return 0, false, err
	}
	if _, err := c.in.Peek(1); err != nil {
		timeout, ok := err.(net.Error)
		return 0, ok && timeout.Timeout(), err
	}
	answer, err := http.ReadResponse(c.in, &http.Request{Method: method})
	if err != nil {
		return 0, true, err
	}
	defer answer.Body.Close()
	c.answer.Reset()
	if _, err := c.answer.ReadFrom(answer.Body); err != nil {
		return 0, true, err
	}
	if answer.Close {
		c.Close()
	}
	return answer.StatusCode, true, nil
}

// Want is Do for a request that must return this status.
func (c *Conn) Want(want int, method, target string, body []byte) ([]byte, error) {
	status, answer, err := c.Do(method, target, body)
	if err == nil && status != want {
		err = fmt.Errorf("%s %s: %d, wanted %d: %.500s", method, target, status, want, answer)
	}
	return answer, err
}

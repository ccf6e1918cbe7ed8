// Package rest contains what all HTTP APIs of Berth share: the client, an in-memory transport, time limits, and reading
// of request bodies with limits.
//
// The services of Berth communicate only over HTTP, also if they run in one process: InMemory connects a client to the
// handler of another service without a socket.
package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/openberth/berth/api/trace"
	"github.com/openberth/berth/fault"
)

// Client sends JSON requests to one service.
type Client struct {
	Base    string            // such as "http://127.0.0.1:8778", without a trailing slash
	HTTP    *http.Client      // nil: a client with a timeout of one minute
	Headers map[string]string // sent with each request: the token, the microversion

	TLSNames TLSOptionNames // the options that HTTP was made from, for errors
}

var defaultHTTP = &http.Client{Timeout: time.Minute}

// Do sends a request and reads its answer. body is encoded as JSON unless it is nil; the answer is decoded into into
// unless that is nil. A status of 400 or more is returned as a fault with a *Status in its chain, a failed connection
// as fault.Unavailable.
func (c *Client) Do(ctx context.Context, method, path string, body, into any) (Answer, error) {
	op := method + " " + path
	resp, err := c.Send(ctx, method, path, body)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, MaxBody+1))
	if err != nil {
		return Answer{}, fault.New(fault.Unavailable, op, "cannot read the whole answer of %s: %w", c.Base, err)
	}
	if len(data) > MaxBody {
		return Answer{}, fault.New(fault.Internal, op, "the answer of %s is over %d MiB", c.Base, MaxBody>>20)
	}
	answer := Answer{Status: resp.StatusCode, Header: resp.Header, Body: data}
	if resp.StatusCode >= 400 {
		return answer, statusFault(op, readStatus(method, path, answer))
	}
	if into != nil && len(data) > 0 {
		if err := json.Unmarshal(data, into); err != nil {
			return answer, fault.New(fault.Internal, op, "the answer of %s does not match its API: %w", c.Base, err)
		}
	}
	return answer, nil
}

// Send sends a request and returns the answer with its body open, for answers that are streams. The caller closes the
// body. Send does not check the status.
func (c *Client) Send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	op := method + " " + path
	var reader io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, fault.New(fault.Internal, op, "cannot encode the request as JSON: %w", err)
		}
		reader = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.Base+path, reader)
	if err != nil {
		return nil, fault.New(fault.Invalid, op, "the address %q is not valid: %w", c.Base, err)
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range c.Headers {
		req.Header.Set(name, value)
	}
	client := c.HTTP
	if client == nil {
		client = defaultHTTP
	}
	done := trace.Call(ctx, req)
	resp, err := client.Do(req)
	if err != nil {
		done(0)
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // without the method and the address, which op and Base contain
		}
		if _, refused := errors.AsType[*fault.Error](err); refused { // by Guard: nothing has been sent
			return nil, fault.Wrap("", op, err)
		}
		if wrong := c.tlsFault(op, err); wrong != nil {
			return nil, wrong
		}
		return nil, fault.New(fault.Unavailable, op, "%s does not answer: %w", c.Base, err)
	}
	done(resp.StatusCode)
	return resp, nil
}

// Answer is the answer to a request.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

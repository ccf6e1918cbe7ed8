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
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/openberth/berth/api/trace"
	"github.com/openberth/berth/fault"
)

// Client sends JSON requests to one service.
type Client struct {
	Base    string            // such as "http://127.0.0.1:8778", without a trailing slash
	HTTP    *http.Client      // nil: a client with a timeout of one minute
	Headers map[string]string // sent with each request: the token, the microversion
	Account Account           // signs each request; nil: Headers has the credentials

	// Locate returns Base if that is empty, for example from a catalog of services. Its error is returned as it is.
	Locate func(ctx context.Context) (string, error)

	// JSONErrors says that the bodies of the service's errors are JSON objects. A proxy without a service answers 404
	// too: an answer in another form is fault.Unavailable, and not the end of an object. Requests below /berth are not
	// concerned: services other than Berth's may answer them in any form.
	JSONErrors bool

	TLSNames TLSOptionNames // the options that HTTP was made from, for errors
}

// Account is the account that a client signs its requests with.
type Account interface {
	// Sign adds the credentials to a request. Its error is returned as it is, and nothing is sent.
	Sign(r *http.Request) error
	// Renew is called after a service has answered a request with 401. It reports whether the same request may be
	// accepted when it is signed again.
	Renew(r *http.Request) bool
}

// WithHeader returns a copy of the client that also sends a header with each request.
func (c *Client) WithHeader(name, value string) *Client {
	out := *c
	out.Headers = maps.Clone(c.Headers)
	if out.Headers == nil {
		out.Headers = map[string]string{}
	}
	out.Headers[name] = value
	return &out
}

var defaultHTTP = &http.Client{Timeout: time.Minute}

// Do sends a request and reads its answer. body is encoded as JSON unless it is nil; the answer is decoded into into
// unless that is nil. A status of 400 or more is returned as a fault with a *Status in its chain, a failed connection
// and an answer that is not one of the service as fault.Unavailable.
func (c *Client) Do(ctx context.Context, method, path string, body, into any) (Answer, error) {
	resp, err := c.Send(ctx, method, path, body)
	if err != nil {
		return Answer{}, err
	}
	return c.read(resp, method, path, into)
}

// DoData sends a request with a body that is not JSON, of length bytes; -1: until it ends. It reads the answer as Do
// does. The body is read once, so the request is not sent again if its credentials have expired.
func (c *Client) DoData(ctx context.Context, method, path string, header http.Header, body io.Reader, length int64,
	into any) (Answer, error) {
	base, err := c.address(ctx)
	if err != nil {
		return Answer{}, err
	}
	req, err := c.request(ctx, method, base, path, nil)
	if err != nil {
		return Answer{}, err
	}
	maps.Copy(req.Header, header)
	req.Body, req.ContentLength = io.NopCloser(body), length
	resp, err := c.send(req, method+" "+path, base)
	if err != nil {
		return Answer{}, err
	}
	return c.read(resp, method, path, into)
}

// read reads an answer, as Do describes it.
func (c *Client) read(resp *http.Response, method, path string, into any) (Answer, error) {
	op := method + " " + path
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, MaxBody+1))
	if err != nil {
		return Answer{}, fault.New(fault.Unavailable, "cannot read the whole answer of %s: %w", c.name(), err).Of(op)
	}
	if len(data) > MaxBody {
		return Answer{}, fault.New(fault.Internal, "the answer of %s is over %d MiB", c.name(), MaxBody>>20).Of(op)
	}
	answer := Answer{Status: resp.StatusCode, Header: resp.Header, Body: data}
	if resp.StatusCode == http.StatusNotFound && c.JSONErrors && !strings.HasPrefix(path, "/berth/") &&
		!isObject(data) {
		return answer, fault.New(fault.Unavailable, "the answer 404 of %s is not one of its API; check the address "+
			"and the proxy in front of it", c.name()).Of(op)
	}
	if resp.StatusCode >= 400 {
		return answer, statusFault(op, readStatus(method, path, answer))
	}
	if into != nil && len(data) == 0 && method == http.MethodGet && resp.StatusCode == http.StatusOK {
		return answer, fault.New(fault.Unavailable, "the answer of %s is empty; check the proxy in front of it",
			c.name()).Of(op)
	}
	if into != nil && len(data) > 0 {
		if err := json.Unmarshal(data, into); err != nil {
			return answer, fault.New(fault.Internal, "the answer of %s does not match its API: %w", c.name(), err).Of(op)
		}
	}
	return answer, nil
}

// Send sends a request and returns the answer with its body open, for answers that are streams. The caller closes the
// body. Send does not check the status; but it sends a request that is answered with 401 once more if the account can
// renew its credentials.
func (c *Client) Send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	op := method + " " + path
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return nil, fault.New(fault.Internal, "cannot encode the request as JSON: %w", err).Of(op)
		}
	}
	base, err := c.address(ctx)
	if err != nil {
		return nil, err
	}
	for renewed := false; ; renewed = true {
		req, err := c.request(ctx, method, base, path, data)
		if err != nil {
			return nil, err
		}
		resp, err := c.send(req, op, base)
		if err != nil || resp.StatusCode != http.StatusUnauthorized || renewed || c.Account == nil ||
			!c.Account.Renew(req) {
			return resp, err
		}
		resp.Body.Close()
	}
}

// address returns the address of the service.
func (c *Client) address(ctx context.Context) (string, error) {
	if c.Base == "" && c.Locate != nil {
		return c.Locate(ctx)
	}
	return c.Base, nil
}

// request returns a request with its credentials. data is its body; nil: none.
func (c *Client) request(ctx context.Context, method, base, path string, data []byte) (*http.Request, error) {
	var reader io.Reader
	if data != nil {
		reader = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, base+path, reader)
	if err != nil {
		return nil, fault.New(fault.Invalid, "the address %q is not valid: %w", base, err).Of(method + " " + path)
	}
	req.Header.Set("Accept", "application/json")
	if data != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if method == http.MethodPut || method == http.MethodDelete {
		// Idempotent (RFC 9110, section 9.2.2), but net/http sends such a request again over a new connection only if
		// this header is there: without a value it is not sent. A kept connection ends when a service restarts.
		req.Header["Idempotency-Key"] = []string{}
	}
	for name, value := range c.Headers {
		req.Header.Set(name, value)
	}
	if c.Account != nil {
		if err := c.Account.Sign(req); err != nil {
			return nil, err
		}
	}
	return req, nil
}

// send sends one request.
func (c *Client) send(req *http.Request, op, base string) (*http.Response, error) {
	client := c.HTTP
	if client == nil {
		client = defaultHTTP
	}
	done := trace.Call(req.Context(), req)
	resp, err := client.Do(req)
	if err != nil {
		done(0)
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // without the method and the address, which op and base contain
		}
		if _, refused := errors.AsType[*fault.Error](err); refused { // by Guard: nothing has been sent
			return nil, fault.Wrap("", err)
		}
		if wrong := c.tlsFault(op, base, err); wrong != nil {
			return nil, wrong
		}
		return nil, fault.New(fault.Unavailable, "%s does not answer: %w", base, err).Of(op)
	}
	done(resp.StatusCode)
	return resp, nil
}

// name returns the address of the service for errors.
func (c *Client) name() string {
	if c.Base == "" {
		return "the service"
	}
	return c.Base
}

// Answer is the answer to a request.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

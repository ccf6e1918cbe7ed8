package main

import (
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
)

// requestGate counts the requests between processes, and stops one of them: the test kills a process there. All
// processes reach each other through links of the gate.
type requestGate struct {
	mu     sync.Mutex
	victim []string // requests that one of them sends or receives are counted
	left   int      // requests before the one that is stopped, which is 0; -1: none is stopped
	after  bool     // the request has been performed, and its answer is lost

	repeated map[string]bool // requests of this operation that the processes repeat, by client and path

	reached chan stopped
}

// stopped is a request that waits until the test has killed a process.
type stopped struct {
	victim string // the process that sends or receives it
	resume chan struct{}
}

var errKilled = errors.New("a process was killed")

func newRequestGate() *requestGate {
	return &requestGate{left: -1, reached: make(chan stopped), repeated: map[string]bool{}}
}

// link returns the URL of a proxy between two processes, until the test ends.
func (g *requestGate) link(t *testing.T, client, server, target string) string {
	t.Helper()
	to, err := url.Parse(target)
	must(t, err)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		victim, stops, after := g.count(client, server, r)
		proxy := &httputil.ReverseProxy{FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
			Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(to) },
			ErrorHandler: func(http.ResponseWriter, *http.Request, error) {
				panic(http.ErrAbortHandler) // the client sees a broken connection, as without the proxy
			}}
		stop := func() { g.stop(t, victim) }
		if stops && after {
			proxy.ModifyResponse = func(*http.Response) error {
				stop()
				return errKilled
			}
		}
		if stops && !after {
			stop()
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
	}))
	front.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
	})
	return front.URL
}

// count counts a request of a link that is a step. It returns the counted process, and whether the request is stopped.
func (g *requestGate) count(client, server string, r *http.Request) (victim string, stops, after bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.isStep(client, r) {
		return "", false, false
	}
	for _, name := range []string{client, server} {
		if g.left >= 0 && slices.Contains(g.victim, name) {
			g.left--
			return name, g.left < 0, g.after
		}
	}
	return "", false, false
}

// isStep reports whether a request is a step of the operation. Others depend on how long it takes: compute reads ports
// and groups each time that it shows the server to the test, which waits; signs of life and audits of a host are steps
// once.
func (g *requestGate) isStep(client string, r *http.Request) bool {
	path, reads := r.URL.Path, r.Method == http.MethodGet
	switch {
	case reads && (path == "/v2.0/security-groups" || path == "/v2.0/ports" && r.URL.Query().Has("fields")):
		return false
	case strings.HasSuffix(path, "/alive"),
		reads && strings.HasPrefix(path, "/resource_providers/") && strings.HasSuffix(path, "/allocations"):
		again := g.repeated[client+path]
		g.repeated[client+path] = true
		return !again
	}
	return true
}

// stop waits until the test has killed the process, or has ended.
func (g *requestGate) stop(t *testing.T, victim string) {
	s := stopped{victim, make(chan struct{})}
	select {
	case g.reached <- s:
		<-s.resume
	case <-t.Context().Done():
	}
}

// arm stops the n-th request from now on, from 1, that one of the processes sends or receives.
func (g *requestGate) arm(n int, after bool, victim ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.victim, g.left, g.after, g.repeated = victim, n-1, after, map[string]bool{}
}

// disarm stops no request.
func (g *requestGate) disarm() { g.arm(0, false) }

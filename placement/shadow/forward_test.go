package shadow

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/openberth/berth/internal/testenv"
)

// exchange sends bytes and reads the answer.
func exchange(t *testing.T, server *httptest.Server, request string) *http.Response {
	t.Helper()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(request, " ")
	response, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// TestForwardsUnchanged sends requests to the original directly and through the shadow. The original must get the same
// and the client too.
func TestForwardsUnchanged(t *testing.T) {
	type seen struct {
		line, host, body string
		header           http.Header
	}
	got := make(chan seen, 1)
	s := newSite(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got <- seen{r.Method + " " + r.RequestURI, r.Host, string(body), r.Header.Clone()}
		w.Header()["x-odd-case"] = []string{"1", "2"}
		w.Header().Set("Date", "Thu, 01 Jan 1970 00:00:00 GMT")
		w.Header().Set("Location", "http://"+r.Host+"/resource_providers/1")
		w.WriteHeader(http.StatusTeapot)
		if r.Method != http.MethodHead {
			_, _ = io.WriteString(w, "answer to "+string(body))
		}
	}), nil)
	for _, request := range []string{
		"GET / HTTP/1.1\r\nHost: placement.example\r\n\r\n",
		"GET /a%2Fb//c;d?x=%zz&y=1;z=2&&q=a+b%20c HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 10.0.0.1\r\n" +
			"X-Forwarded-Proto: https\r\nForwarded: for=1\r\nX-Forwarded-Host: front\r\nAccept-Encoding: br\r\n\r\n",
		"HEAD /traits HTTP/1.1\r\nHost: h\r\nUser-Agent: python\r\nX-Auth-Token: t\r\nCookie: a=b\r\n\r\n",
		"PUT /allocations/1 HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nContent-Type: application/json\r\n\r\n{ \r\n",
		"POST /reshaper HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
		"DELETE /resource_providers/1 HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n\r\n",
		"OPTIONS / HTTP/1.1\r\nHost: h\r\nOrigin: https://a\r\n\r\n",
	} {
		direct := exchange(t, s.original, request)
		want := <-got
		through := exchange(t, s.server, request)
		have := <-got
		have.header.Del("Connection") // of each connection, not of the request
		if have.line != want.line || have.host != want.host || have.body != want.body ||
			!maps.EqualFunc(have.header, want.header, func(a, b []string) bool {
				return strings.Join(a, "|") == strings.Join(b, "|")
			}) {
			t.Errorf("the original gets\n%+v, directly\n%+v", have, want)
		}
		a, errA := io.ReadAll(direct.Body)
		b, errB := io.ReadAll(through.Body)
		if string(a) != string(b) || errA != nil || errB != nil || direct.StatusCode != through.StatusCode ||
			!maps.EqualFunc(direct.Header, through.Header, func(a, b []string) bool {
				return strings.Join(a, "|") == strings.Join(b, "|")
			}) {
			t.Errorf("the client gets\n%d %v %q %v, directly\n%d %v %q %v", through.StatusCode, through.Header, b, errB,
				direct.StatusCode, direct.Header, a, errA)
		}
	}
}

// TestForwardsBelowAPath forwards to an original whose URL has a path, and compares links without it.
func TestForwardsBelowAPath(t *testing.T) {
	s := newSite(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		jsonAnswer(`{"links": [{"rel": "self", "href": "`+r.RequestURI+`"}]}`)(w, r)
	}), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		jsonAnswer(`{"links": [{"rel": "self", "href": "`+r.RequestURI+`"}]}`)(w, r)
	}))
	of, err := url.Parse(s.original.URL + "/placement/")
	if err != nil {
		t.Fatal(err)
	}
	options := s.shadow.options
	options.Original, options.Report = of, s.report+"2"
	sh, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	sh.berth.Store(s.shadow.berth.Load())
	w := httptest.NewRecorder()
	sh.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/traits?name=a", http.NoBody))
	if !strings.Contains(w.Body.String(), `"/placement/traits?name=a"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	sh.guarded(t.Context(), <-sh.compared, sh.compare)
	if p := sh.recorder.state(); p.Equal != 1 {
		t.Errorf("%+v", p)
	}
}

// TestForwardsWhileTheAnswerArrives reads the beginning of an answer whose end the original has not sent.
func TestForwardsWhileTheAnswerArrives(t *testing.T) {
	more := make(chan struct{})
	s := newSite(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "one ")
		w.(http.Flusher).Flush()
		<-more
		_, _ = io.WriteString(w, "two")
	}), jsonAnswer("{}"))
	response, err := http.Get(s.server.URL + "/traits")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	first := make([]byte, 4)
	if _, err := io.ReadFull(response.Body, first); err != nil || string(first) != "one " {
		t.Fatalf("%q %v", first, err)
	}
	close(more)
	if rest, err := io.ReadAll(response.Body); err != nil || string(rest) != "two" {
		t.Fatalf("%q %v", rest, err)
	}
}

// TestFailuresOfTheOriginal tests an original that cuts an answer off, and one that does not listen.
func TestFailuresOfTheOriginal(t *testing.T) {
	s := newSite(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "half")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}), jsonAnswer("{}"))
	response, err := http.Get(s.server.URL + "/traits")
	if err == nil {
		var body []byte
		if body, err = io.ReadAll(response.Body); err == nil {
			t.Errorf("the client takes %q for complete", body)
		}
		response.Body.Close()
	}
	if p := s.answered(1); p.NotCompared[incomplete] != 1 {
		t.Errorf("%+v", p)
	}
	s.original.Close()
	if status, body := s.get("/traits"); status != http.StatusBadGateway || !strings.Contains(body, `"errors"`) ||
		!strings.Contains(body, "The original Placement does not answer: it refuses connections") {
		t.Errorf("%d %s", status, body)
	}
}

// TestKeepsConnections counts the connections of many requests.
func TestKeepsConnections(t *testing.T) {
	s := newSite(t, jsonAnswer("{}"), nil)
	for range 50 {
		s.get("/traits")
	}
	if n := s.opened.Load(); n > 2 {
		t.Errorf("%d connections for 50 requests", n)
	}
}

// TestConnectionsThatTheOriginalCloses sends requests to an original that closes each connection after its answer and
// does not announce it. None may fail, and no write may be sent twice.
func TestConnectionsThatTheOriginalCloses(t *testing.T) {
	var writes atomic.Int64
	s := newSite(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			writes.Add(1)
		}
		conn, out, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(out, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
		_ = out.Flush()
		conn.Close()
	}), nil)
	const rounds = 200
	for range rounds {
		for _, method := range []string{"GET", "PUT"} {
			r, err := http.NewRequestWithContext(t.Context(), method, s.server.URL+"/traits/A", strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			if method == "GET" {
				r.Body, r.ContentLength = http.NoBody, 0
			}
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			if response.StatusCode != http.StatusOK {
				t.Fatalf("%s: %d", method, response.StatusCode)
			}
		}
	}
	if n := writes.Load(); n != rounds {
		t.Errorf("the original got %d writes instead of %d", n, rounds)
	}
}

// TestAClientThatLeaves ends a request while the original works on it: the original's request must end too.
func TestAClientThatLeaves(t *testing.T) {
	begun, ended := make(chan struct{}), make(chan struct{})
	s := newSite(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
		close(ended)
	}), jsonAnswer("{}"))
	conn, err := net.Dial("tcp", s.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "GET /traits HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-begun
	conn.Close()
	select {
	case <-ended:
	case <-time.After(testenv.Patience):
		t.Error("the request to the original goes on")
	}
}

// TestReasons checks that the texts for clients have neither names nor addresses.
func TestReasons(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "secret", Server: "10.0.0.1:53"}},
			"its name cannot be resolved"},
		{&tls.CertificateVerificationError{Err: x509.HostnameError{Certificate: &x509.Certificate{}, Host: "secret"}},
			"its certificate is not valid"},
		{tls.RecordHeaderError{Msg: "secret"}, "it does not use TLS"},
		{&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}, "it takes too long"},
		{&net.OpError{Op: "read", Err: syscall.ECONNRESET}, "it closed the connection"},
		{&net.OpError{Op: "dial", Err: syscall.EHOSTUNREACH}, "there is no route to it"},
		{errors.New("secret"), "the connection failed"},
	} {
		if got := reasonOf(fmt.Errorf("secret: %w", c.err)); got != c.want {
			t.Errorf("%v: %s", c.err, got)
		}
	}
}

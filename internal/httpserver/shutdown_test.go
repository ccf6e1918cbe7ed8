package httpserver

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/internal/testcert"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/placement/server"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/sqldb"
)

// serving is a running server.
type serving struct {
	t     *testing.T
	addr  string
	ca    *testcert.CA // nil: without TLS
	stop  context.CancelFunc
	ended chan error
}

// overTLS is the part of a test's name with which its servers use TLS.
const overTLS = "OverTLS"

func startServer(t *testing.T, ctx context.Context, lim limits, h http.Handler) *serving {
	t.Helper()
	ctx, stop := context.WithCancel(ctx)
	t.Cleanup(stop)
	l, err := Listen("--listen", "127.0.0.1:0", true)
	if err != nil {
		t.Fatal(err)
	}
	s := &serving{t: t, addr: l.Addr().String(), stop: stop, ended: make(chan error, 1)}
	var cert *Certificate
	if strings.Contains(t.Name(), overTLS) {
		s.ca = testcert.NewCA(t)
		issued := s.ca.Issue(t, testcert.Certificate{})
		if cert, err = OpenCertificate(filesOf(issued), slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
	}
	go func() { s.ended <- serve(ctx, l, h, cert, slog.New(slog.DiscardHandler), lim) }()
	return s
}

// end waits until the server has ended.
func (s *serving) end() error {
	s.t.Helper()
	select {
	case err := <-s.ended:
		return err
	case <-time.After(testenv.Patience):
		s.t.Fatal("the server does not end")
		return nil
	}
}

// raw opens a connection and sends text.
func (s *serving) raw(text string) net.Conn {
	s.t.Helper()
	return s.from("127.0.0.1", text)
}

// from opens a connection from an address of this machine and sends text.
func (s *serving) from(address, text string) net.Conn {
	s.t.Helper()
	conn, err := s.dial(address)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	limited := conn.SetDeadline(time.Now().Add(testenv.Patience))
	if err := errors.Join(limited, second(io.WriteString(conn, text))); err != nil {
		s.t.Fatal(err)
	}
	return conn
}

// dial opens a connection from an address of this machine. With TLS, the handshake begins at the first write.
func (s *serving) dial(address string) (net.Conn, error) {
	conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}).Dial("tcp", s.addr)
	if err != nil || s.ca == nil {
		return conn, err
	}
	config := s.ca.Client()
	config.ServerName = "localhost"
	return tls.Client(conn, config), nil
}

// get sends a GET request on a new connection.
func (s *serving) get(path string) (*http.Response, error) {
	transport := &http.Transport{DisableKeepAlives: true}
	if s.ca == nil {
		return (&http.Client{Transport: transport}).Get("http://" + s.addr + path)
	}
	transport.TLSClientConfig = s.ca.Client()
	return (&http.Client{Transport: transport}).Get("https://" + s.addr + path)
}

func second[T any](_ T, err error) error { return err }

// refuses waits until the port is closed.
func (s *serving) refuses() {
	s.t.Helper()
	testenv.Until(s.t, "the port is closed", func() bool {
		conn, err := net.Dial("tcp", s.addr)
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
}

// SIGTERM arrives while a client is sending a claim: the claim is completed, answered and stored, and new connections
// are refused.
func TestSIGTERMDuringClaim(t *testing.T) {
	ctx, stop := signal.NotifyContext(t.Context(), syscall.SIGTERM)
	defer stop()
	url := "sqlite:///" + filepath.Join(t.TempDir(), "placement.db")
	house := openTestPlacement(t, url)
	s := startServer(t, ctx, defaultLimits(), house.Handler)
	const provider, consumer = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
	do := func(handler http.Handler, method, path, body string) string {
		t.Helper()
		status, text := inMemory(t, handler, method, path, body)
		if status >= 300 {
			t.Fatalf("%s %s: %d %s", method, path, status, text)
		}
		return text
	}
	do(house.Handler, "POST", "/resource_providers", fmt.Sprintf(`{"name":"host","uuid":%q}`, provider))
	do(house.Handler, "PUT", "/resource_providers/"+provider+"/inventories",
		`{"resource_provider_generation":0,"inventories":{"VCPU":{"total":4}}}`)

	claim := fmt.Sprintf(
		`{"allocations":{%q:{"resources":{"VCPU":3}}},"project_id":"p","user_id":"u",`+
			`"consumer_generation":null,"consumer_type":"INSTANCE"}`, provider)
	conn := s.raw(fmt.Sprintf("PUT /allocations/%s HTTP/1.1\r\nHost: x\r\nX-Auth-Token: admin\r\nOpenStack-API-Version: "+
		"placement 1.39\r\n"+
		"Content-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", consumer, len(claim)))
	answer := bufio.NewReader(conn)
	// the handler is running
	if line, err := answer.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatalf("%q %v", line, err)
	}
	_, _ = answer.ReadString('\n')
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.refuses()
	if _, err := io.WriteString(conn, claim); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(answer, nil)
	if err != nil || resp.StatusCode != http.StatusNoContent {
		t.Fatalf("%+v %v", resp, err)
	}
	if err := errors.Join(s.end(), house.Close()); err != nil {
		t.Fatal(err)
	}
	again := openTestPlacement(t, url)
	if text := do(again.Handler, "GET", "/allocations/"+consumer, ""); !strings.Contains(text, `"VCPU":3`) {
		t.Errorf("the claim was answered but is not stored: %s", text)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

// On shutdown a long request is completed, and a stream is ended at once.
func TestShutdownEndsStreamsAndFinishesRequests(t *testing.T) {
	work, began := make(chan struct{}), make(chan string, 2)
	mux := http.NewServeMux()
	mux.HandleFunc("/work", func(w http.ResponseWriter, r *http.Request) {
		began <- "work"
		<-work
		if r.Context().Err() != nil {
			t.Error("the work was cancelled")
		}
		_, _ = io.WriteString(w, "done")
	})
	mux.HandleFunc("/stream", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "a line\n")
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		began <- "stream"
		<-r.Context().Done()
		_, _ = io.WriteString(w, "the end\n")
	})
	s := startServer(t, t.Context(), defaultLimits(), mux)
	get := func(path string) chan string {
		text := make(chan string, 1)
		go func() {
			resp, err := s.get(path)
			if err != nil {
				text <- err.Error()
				return
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			text <- fmt.Sprint(string(body), err)
		}()
		return text
	}
	worked, streamed := get("/work"), get("/stream")
	for range 2 {
		<-began
	}
	s.stop()
	s.refuses()
	if got := <-streamed; got != "a line\nthe end\n<nil>" {
		t.Errorf("the stream: %q", got)
	}
	select {
	case err := <-s.ended:
		t.Fatalf("the server did not wait for the request: %v", err)
	default:
	}
	close(work)
	if got := <-worked; got != "done<nil>" {
		t.Errorf("the work: %q", got)
	}
	if err := s.end(); err != nil {
		t.Error(err)
	}
}

// A request that is not finished in time is cut off, and the error reports it.
func TestShutdownTimeout(t *testing.T) {
	lim := defaultLimits()
	lim.shutdownTimeout = 50 * time.Millisecond
	began, cut := make(chan struct{}), make(chan struct{})
	s := startServer(t, t.Context(), lim, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
		close(cut)
	}))
	s.raw("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	<-began
	s.stop()
	if err := s.end(); err == nil || !strings.Contains(err.Error(), "not finished 50ms after") {
		t.Errorf("%v", err)
	}
	select {
	case <-cut:
	case <-time.After(testenv.Patience):
		t.Error("the work was not cancelled")
	}
}

// testPlacement is a Placement API on a database.
type testPlacement struct {
	Handler http.Handler
	Close   func() error
}

// openTestPlacement opens the Placement API on a database, with noauth2.
func openTestPlacement(t *testing.T, url string) testPlacement {
	t.Helper()
	db, err := sqldb.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	s, err := store.Open(t.Context(), db)
	if err == nil {
		err = s.Sync(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	h, err := server.New(t.Context(), s, server.Options{Options: edge.Options{Authenticate: identity.NoAuth2,
		Log: slog.New(slog.DiscardHandler)}})
	if err != nil {
		t.Fatal(err)
	}
	return testPlacement{Handler: h, Close: db.Close}
}

// inMemory sends a request of admin to a handler.
func inMemory(t *testing.T, h http.Handler, method, path, body string) (status int, text string) {
	t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("X-Auth-Token", "admin")
	r.Header.Set("OpenStack-API-Version", "placement 1.39")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	return rec.Code, rec.Body.String()
}

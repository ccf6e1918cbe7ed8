package httpserver

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/openberth/berth/internal/testenv"
)

// A client that sends too slowly is disconnected.
func TestSlowSenders(t *testing.T) {
	lim := defaultLimits()
	lim.headerTimeout, lim.readTimeout, lim.idleTimeout = time.Second, time.Second, time.Second // a handshake fits in
	read := make(chan error, 1)
	s := startServer(t, t.Context(), lim, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "PUT" {
			read <- second(io.ReadAll(r.Body))
		}
	}))
	clients := map[string]net.Conn{}
	for name, text := range map[string]string{
		"the head":       "GET / HTTP/1.1\r\nHost:",
		"nothing":        "",
		"the body":       "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf",
		"a next request": "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		clients[name] = s.raw(text)
	}
	for name, client := range clients {
		if _, err := io.Copy(io.Discard, client); err != nil { // ends when the server closes the connection
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := <-read; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the body: %v", err)
	}
	s.stop()
	if err := s.end(); err != nil {
		t.Error(err)
	}
}

// A client that receives a response too slowly is disconnected; one that receives a large response at full speed is
// not.
func TestSlowReaders(t *testing.T) {
	lim := defaultLimits()
	lim.writeGrace, lim.writeRate = 3*time.Second, 1<<30
	const parts = 64
	part, wrote := bytes.Repeat([]byte("x"), 1<<20), make(chan error, 1)
	s := startServer(t, t.Context(), lim, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var err error
		for i := 0; i < parts && err == nil; i++ {
			_, err = w.Write(part)
		}
		wrote <- err
	}))
	s.raw("GET / HTTP/1.1\r\nHost: x\r\n\r\n") // this client reads nothing
	select {
	case err := <-wrote:
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%v", err)
		}
	case <-time.After(testenv.Patience):
		t.Error("the server waits for a client that takes nothing")
	}
	resp, err := s.get("/")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if n, err := io.Copy(io.Discard, resp.Body); n != parts<<20 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	if err := <-wrote; err != nil {
		t.Error(err)
	}
}

package cloud

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Connections beyond the limit wait, and are served when one ends; one that is idle makes room at once.
func TestACrowd(t *testing.T) {
	may := usual()
	may.most = 2
	work, begun := make(chan struct{}), make(chan struct{}, 10)
	s := serveFor(t, t.Context(), may, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/work" {
			begun <- struct{}{}
			<-work
		}
		_, _ = io.WriteString(w, "done")
	}))
	const idle, busy = "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "GET /work HTTP/1.1\r\nHost: x\r\n\r\n"
	first := s.raw(busy)
	<-begun
	second := s.raw(idle)
	reader := bufio.NewReader(second)
	finished(t, reader)
	third := s.raw(busy) // takes the place of the second, which is idle
	<-begun
	if _, err := reader.ReadByte(); err != io.EOF {
		t.Errorf("the idle connection: %v", err)
	}
	fourth := s.raw(idle)
	if err := fourth.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(fourth).ReadByte(); err == nil || !isTimeout(err) {
		t.Errorf("a connection too many does not wait: %v", err)
	}
	if err := fourth.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	close(work)
	for _, conn := range []net.Conn{first, third, fourth} {
		finished(t, bufio.NewReader(conn))
	}
	s.stop()
	if err := s.end(); err != nil {
		t.Error(err)
	}
}

func isTimeout(err error) bool {
	timeout, ok := err.(net.Error)
	return ok && timeout.Timeout()
}

func finished(t *testing.T, from *bufio.Reader) {
	t.Helper()
	resp, err := http.ReadResponse(from, nil)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "done" {
		t.Fatalf("%q %v", body, err)
	}
}

// A server that is full can be told to stop.
func TestAFullServerStops(t *testing.T) {
	may := usual()
	may.most = 1
	work, begun := make(chan struct{}), make(chan struct{}, 1)
	s := serveFor(t, t.Context(), may, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		<-work
		_, _ = io.WriteString(w, "done")
	}))
	first := s.raw("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	<-begun
	waiting := s.raw("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	time.Sleep(20 * time.Millisecond) // mostly it waits in Accept then; the test holds if not
	s.stop()
	s.refuses()
	close(work)
	finished(t, bufio.NewReader(first))
	if _, err := io.Copy(io.Discard, waiting); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Error(err)
	}
	if err := s.end(); err != nil {
		t.Error(err)
	}
}

// Told to stop in the middle of fifty requests that work and fifty that are still being sent, the server answers all.
func TestAllThatBeganIsAnswered(t *testing.T) {
	const many = 50
	work, begun := make(chan struct{}), make(chan struct{}, 2*many)
	s := serveFor(t, t.Context(), usual(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		if r.Method == "GET" {
			<-work
		} else if body, err := io.ReadAll(r.Body); err != nil || len(body) != 100 {
			t.Errorf("%d bytes: %v", len(body), err)
		}
		_, _ = io.WriteString(w, "done")
	}))
	working, sending := make([]net.Conn, many), make([]net.Conn, many)
	for i := range many {
		working[i] = s.raw("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		sending[i] = s.raw("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf")
	}
	for range 2 * many {
		<-begun
	}
	s.stop()
	s.refuses()
	for _, conn := range sending {
		if _, err := fmt.Fprint(conn, strings.Repeat("x", 96)); err != nil {
			t.Error(err)
		}
	}
	close(work)
	for i := range many {
		finished(t, bufio.NewReader(working[i]))
		finished(t, bufio.NewReader(sending[i]))
	}
	if err := s.end(); err != nil {
		t.Error(err)
	}
}

package httpserver

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/internal/testenv"
)

// attackedServer is a Placement API on a TCP port, with one resource provider. No attacker is disconnected because of
// its time before other requests must be answered.
type attackedServer struct {
	*serving
	provider string
	ended    chan struct{} // closed at the end of the test to stop the attackers
	working  sync.WaitGroup
}

func newAttackedServer(t *testing.T, lim limits) *attackedServer {
	t.Helper()
	lim.headerTimeout, lim.readTimeout = 2*testenv.Patience, 2*testenv.Patience
	house := openTestPlacement(t, "sqlite:///"+filepath.Join(t.TempDir(), "placement.db"))
	v := &attackedServer{serving: startServer(t, t.Context(), lim, house.Handler), provider: uuid.NewString(),
		ended: make(chan struct{})}
	if status, text := inMemory(t, house.Handler, "POST", "/resource_providers", fmt.Sprintf(`{"name":"host","uuid":%q}`,
		v.provider)); status != http.StatusOK {
		t.Fatal(status, text)
	}
	t.Cleanup(func() {
		close(v.ended)
		v.stop()
		if err := v.end(); err != nil && !strings.Contains(err.Error(), "cut off") {
			t.Error(err)
		}
		v.working.Wait()
	})
	return v
}

// attack keeps this many connections open. On each it sends text, and then drop every 100 ms if drop is not empty. It
// replaces closed connections. It returns when each has sent its text once.
func (v *attackedServer) attack(connections int, text, drop string) {
	v.t.Helper()
	var begun sync.WaitGroup
	begun.Add(connections)
	for range connections {
		v.working.Go(func() {
			first := sync.OnceFunc(begun.Done)
			defer first()
			for {
				if conn, err := net.Dial("tcp", v.addr); err == nil {
					v.drip(conn, text, drop, first)
				}
				select {
				case <-v.ended:
					return
				case <-time.After(100 * time.Millisecond):
				}
			}
		})
	}
	begun.Wait()
}

// drip sends until the connection or the test ends.
func (v *attackedServer) drip(conn net.Conn, text, drop string, sent func()) {
	defer conn.Close()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_, _ = io.Copy(io.Discard, conn)
	}()
	_ = conn.SetWriteDeadline(time.Now().Add(testenv.Patience))
	if _, err := io.WriteString(conn, text); err != nil {
		return
	}
	sent()
	for {
		select {
		case <-v.ended:
			return
		case <-closed:
			return
		case <-time.After(100 * time.Millisecond):
			if _, err := io.WriteString(conn, drop); err != nil {
				return
			}
		}
	}
}

// request sends a request on its own connection, and expects a response.
func (v *attackedServer) request(method, path, body string) {
	v.t.Helper()
	begun := time.Now()
	conn, err := v.dial("127.0.0.1")
	if err != nil {
		v.t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(begun.Add(testenv.Patience))
	if _, err := io.WriteString(conn, head(method, path, len(body))+body); err != nil {
		v.t.Errorf("%s %s of %d bytes: %v after %s", method, path, len(body), err, time.Since(begun))
		return
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		v.t.Errorf("%s %s of %d bytes: %v after %s", method, path, len(body), err, time.Since(begun))
		return
	}
	defer resp.Body.Close()
	v.t.Logf("%s of %d bytes: %s", method, len(body), time.Since(begun))
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode >= 300 {
		v.t.Errorf("%s %s of %d bytes: %s %s", method, path, len(body), resp.Status, text)
	}
}

func head(method, path string, length int) string {
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Auth-Token: admin\r\nOpenStack-API-Version: placement "+
		"1.1\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\n\r\n", method, path, length)
}

// aggregates returns a request body with this many aggregates of 39 bytes each.
func aggregates(many int) string {
	list := make([]string, many)
	for i := range list {
		list[i] = `"` + uuid.NewString() + `"`
	}
	return "[" + strings.Join(list, ",") + "]"
}

// upload returns the header of an upload of nearly the maximum size and the first bytes of its body.
func upload(path string, sent int) string {
	return head("PUT", path, 8<<20-1) + "[" + strings.Repeat(" ", sent)
}

// Uploads that arrive slowly, or that stop, do not delay other requests, with large and small bodies.
func TestSlowUploadsDoNotBlockOthers(t *testing.T) {
	for name, attack := range map[string]func(*attackedServer, string){
		"slow from the start":  func(v *attackedServer, path string) { v.attack(40, upload(path, 0), " ") },
		"beyond what is free":  func(v *attackedServer, path string) { v.attack(200, upload(path, 20<<10), " ") },
		"fast and then slow":   func(v *attackedServer, path string) { v.attack(6, upload(path, 6<<20), " ") },
		"fast and then silent": func(v *attackedServer, path string) { v.attack(5, upload(path, 7<<20), "") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newAttackedServer(t, defaultLimits())
			path := "/resource_providers/" + v.provider + "/aggregates"
			attack(v, path)
			v.request("PUT", path, aggregates(10))
			v.request("PUT", path, aggregates(500))
			v.request("GET", path, "")
		})
	}
}

// Connections with an incomplete request header do not block requests.
func TestIncompleteHeadersDoNotBlockOthers(t *testing.T) {
	for name, text := range map[string]string{"half a head": "GET /resource_providers HTTP/1.1\r\nHost:", "nothing": "",
		"half of a second head": head("GET", "/", 0) + "GET / HT"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lim := defaultLimits()
			lim.maxTotal = 50
			v := newAttackedServer(t, lim)
			v.attack(60, text, "")
			for range 10 {
				v.request("GET", "/resource_providers", "")
				v.request("PUT", "/resource_providers/"+v.provider+"/aggregates", aggregates(500))
			}
		})
	}
}

// Stalled uploads do not use connections that other requests need.
func TestStalledUploadsAreEvicted(t *testing.T) {
	testenv.Long(t)
	lim := defaultLimits()
	lim.maxTotal = 50
	v := newAttackedServer(t, lim)
	path := "/resource_providers/" + v.provider + "/aggregates"
	v.attack(60, upload(path, 10), "")
	for range 5 {
		v.request("GET", "/resource_providers", "")
		v.request("PUT", path, aggregates(500))
	}
}

// A client that sends slowly but steadily is served, even if its body takes longer than readTimeout.
func TestSlowSteadyClientIsServed(t *testing.T) {
	lim := defaultLimits()
	lim.readTimeout = 6 * time.Second
	var got atomic.Int64
	s := startServer(t, t.Context(), lim, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			t.Error(err)
		}
		got.Store(n)
		_, _ = io.WriteString(w, "done")
	}))
	const piece, pieces = chunkBytes / 2, 10
	begun := time.Now()
	conn := s.raw(head("PUT", "/", piece*pieces))
	for range pieces {
		time.Sleep(lim.readTimeout / 8) // four times the required rate
		if _, err := io.WriteString(conn, strings.Repeat("x", piece)); err != nil {
			t.Fatal(err)
		}
	}
	finished(t, bufio.NewReader(conn))
	if took := time.Since(begun); got.Load() != piece*pieces || took < lim.readTimeout {
		t.Errorf("%d bytes in %s: the test shows nothing", got.Load(), took)
	}
	s.stop()
	if err := s.end(); err != nil {
		t.Error(err)
	}
}

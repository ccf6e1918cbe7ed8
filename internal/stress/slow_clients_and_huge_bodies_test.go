package stress

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/internal/testenv"
)

// TestSlowClientsAreCut tests that clients which send their headers byte by byte are disconnected, and that others
// are served meanwhile.
func TestSlowClientsAreCut(t *testing.T) {
	t.Parallel()
	p := newProcess(t, databases.SQLite(t))
	api := p.placementClient()
	var cut sync.WaitGroup
	head := "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: " + strings.Repeat("x", 4096)
	conns := make([]net.Conn, slowClients)
	for i := range conns {
		conns[i] = p.dial(t)
	}
	ended := make(chan struct{})
	for _, c := range conns {
		cut.Go(func() {
			go io.Copy(io.Discard, c) // until it is disconnected
			for i := range head {
				if _, err := c.Write([]byte{head[i]}); err != nil {
					return
				}
				select {
				case <-ended:
					return
				case <-time.After(200 * time.Millisecond):
				}
			}
		})
	}
	all := make(chan struct{})
	go func() {
		cut.Wait()
		close(all)
	}()
	defer close(ended)
	for last := time.After(testenv.Patience); ; {
		select {
		case <-all:
			p.checkAlive(t)
			return
		case <-last:
			t.Fatal("some slow clients are still served")
		case <-time.After(time.Second):
			if status, err := p.health(); err != nil || status != http.StatusOK {
				t.Fatalf("/healthz with slow clients: %d %v", status, err)
			}
			if _, err := api.Providers(t.Context(), nil); err != nil {
				t.Fatalf("other clients are not served: %v", err)
			}
		}
	}
}

// endless is a body of JSON without end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = "[1,"[i%3]
	}
	return len(p), nil
}

// TestHugeBodies tests that a body of 100 MB is rejected with 413, with a length or in chunks, and that memory stays
// bounded.
func TestHugeBodies(t *testing.T) {
	t.Parallel()
	p := newProcess(t, databases.SQLite(t))
	before := p.peak(t)
	for name, length := range map[string]string{"length": fmt.Sprintf("Content-Length: %d", bodySize),
		"chunked": "Transfer-Encoding: chunked"} {
		t.Run(name, func(t *testing.T) {
			if status := p.sendHugeBody(p.dial(t), length); status != http.StatusRequestEntityTooLarge {
				t.Errorf("status %d for a body of 100 MB", status)
			}
		})
	}
	p.checkAlive(t)
	after := p.peak(t)
	t.Logf("peak memory: %d MiB before, %d MiB after", before>>20, after>>20)
	if after > maxMemory {
		t.Errorf("peak memory is %d MiB", after>>20)
	}
}

// sendHugeBody sends a huge body and returns the status of the response, 0 without one. The server may stop reading
// before the end.
func (p *process) sendHugeBody(c net.Conn, length string) int {
	defer c.Close()
	go func() { // ends at the latest when the connection is closed
		fmt.Fprintf(c, "POST /allocations HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Auth-Token: admin\r\nOpenStack-API-Version: "+
			"placement 1.39\r\n"+
			"Content-Type: application/json\r\n%s\r\n\r\n", length)
		body := io.LimitReader(endless{}, bodySize)
		if strings.HasPrefix(length, "Content") {
			io.Copy(c, body)
			return
		}
		for piece := make([]byte, 1<<20); ; {
			n, err := body.Read(piece)
			if err != nil {
				return
			}
			if _, err := fmt.Fprintf(c, "%x\r\n%s\r\n", n, piece[:n]); err != nil {
				return
			}
		}
	}()
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	return response.StatusCode
}
